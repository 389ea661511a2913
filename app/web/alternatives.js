/** Other words in the place of a word of the translation. */
import { answerOf, send } from "./service.js";

const MOST = 8;

/**
 * Translations that go on in another way from a place.
 *
 * @returns {Promise<{shown: string, translated: string}[]>} What to offer, each with the whole translation.
 */
export async function alternativesAt(request, translated, start, signal) {
  const prefix = translated.slice(0, start);
  const body = { ...request, alternatives: MOST };
  const answer = await answerOf(await send("translate", { body, signal }));
  const found = new Map();
  for (const other of [answer.translatedText, ...(answer.alternatives ?? [])]) {
    const shown = wordAt(other, start);
    if (!other.startsWith(prefix) || !shown || shown === wordAt(translated, start) || found.has(shown)) continue;
    found.set(shown, { shown, translated: other });
  }
  return [...found.values()];
}

/** The word of a text at a place, with the white space before it if it begins there. */
function wordAt(text, start) {
  const segments = new Intl.Segmenter(undefined, { granularity: "word" }).segment(text.slice(start));
  const parts = [];
  for (const { segment, isWordLike } of segments) {
    parts.push(segment);
    if (isWordLike) break;
  }
  return parts.join("").trim();
}
