/** Which words of the text a word of the translation comes from. */
import { answerOf, send } from "./service.js";

const MOST_CHARACTERS = 2000; // The alignment of a longer text is not asked for: it grows with the square.
const LEAST_SHARE = 0.65; // Of the best: words of the text with a smaller share are not shown.

/**
 * The places of tokens in the text that they make up, each as [start, end].
 *
 * Tokens that are not found, because a placeholder or other letters stand there, get none.
 */
function placesOf(sentences, text) {
  const lower = text.toLowerCase();
  let position = 0;
  return sentences.map((tokens) => tokens.map((token) => {
    const word = token.replaceAll("▁", " ").trim().toLowerCase();
    const start = word ? lower.indexOf(word, position) : -1;
    if (start < 0 || start > position + 40) return null;
    position = start + word.length;
    return [start, position];
  }));
}

/** For each place in the translation, the places in the text; null where the service does not say. */
export async function alignmentOf(request, translated, signal) {
  if (request.q.length > MOST_CHARACTERS) return null;
  const body = { ...request, include: ["tokens", "alignment"] };
  const { translatedText, details } = await answerOf(await send("translate", { body, signal }));
  const [{ tokens, alignment } = {}] = details ?? [];
  if (translatedText !== translated || !tokens) return null;
  const from = placesOf(tokens.map(({ source }) => source), request.q);
  const to = placesOf(tokens.map(({ target }) => target), translated);
  return to.flatMap((places, sentence) => {
    const rows = alignment[sentence] ?? [];
    // Attention prefers some tokens wherever the translation is, so a share is one of what the token gets in all.
    const totals = from[sentence].map((place, column) => place && rows.reduce((sum, row) => sum + row[column], 0));
    const shares = rows.map((row) => row.map((share, column) => (totals[column] ? share / totals[column] : 0)));
    return places.flatMap((place, row) => (
      place && shares[row] ? [{ place, shares: shares[row], from: from[sentence] }] : []));
  });
}

/** The places of words in the text that the translation from `start` to `end` comes from. */
export function sourcesOf(alignment, start, end, text) {
  const rows = alignment.filter(({ place }) => place[0] < end && place[1] > start);
  return rows.flatMap(({ shares, from }) => {
    const best = Math.max(...shares);
    const found = from.filter((place, column) => place && best && shares[column] >= LEAST_SHARE * best);
    return found.map((place) => wholeWord(place, text));
  });
}

/** A place, extended to both sides as far as there are letters. */
function wholeWord([start, end], text) {
  const [before] = /[\p{L}\p{M}\p{N}]*$/u.exec(text.slice(0, start));
  const [after] = /^[\p{L}\p{M}\p{N}]*/u.exec(text.slice(end));
  return [start - before.length, end + after.length];
}
