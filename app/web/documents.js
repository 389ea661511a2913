/** Documents: sent, translated by the service in the background, and saved. */
import { Refusal, answerOf, pause, send } from "./service.js";

const SECONDS = 0.5; // Between two questions how far a document is.

/**
 * Translate a document; ending the signal ends it at the service too.
 *
 * @param {File} file - What is translated.
 * @param {{source: string, target: string}} languages - Codes; the source may be `auto`.
 * @param {AbortSignal} signal - Ends it.
 * @param {(share: number) => void} onProgress - Gets the share that is done, from 0 to 1.
 * @returns {Promise<Blob>} The translated document.
 */
export async function translateDocument(file, { source, target }, signal, onProgress) {
  const form = new FormData();
  form.append("file", file);
  form.append("target_lang", target);
  if (source !== "auto") form.append("source_lang", source);
  const sent = await answerOf(await send("v2/document", { body: form, signal }));
  const path = `v2/document/${sent.document_id}`;
  const body = { document_key: sent.document_key };
  try {
    for (;;) {
      const state = await answerOf(await send(path, { body, signal }));
      if (state.status === "error") throw new Refusal(state.error_message);
      if (state.status === "done") break;
      onProgress(state.translated_characters / (state.total_characters || 1));
      await pause(SECONDS);
    }
    const result = await send(`${path}/result`, { body, signal });
    return result.ok ? result.blob() : answerOf(result);
  } catch (error) {
    if (signal.aborted) send(`${path}/cancel`, { body }).catch(() => {});
    throw error;
  }
}

/** Save a document under the name of its source, with the language before the suffix. */
export function save(blob, name, language) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/(\.[^.]*)?$/, `.${language}$1`);
  link.click();
  URL.revokeObjectURL(link.href);
}
