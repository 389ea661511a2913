/** What the page asks of the service; errors are told in the words of people. */
import { words } from "./words.js";

const key = document.getElementById("key");

export class Refusal extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Send a request with the key that the user has entered; an object is sent as JSON. */
export function send(path, { body, headers = {}, ...options } = {}) {
  const all = { ...headers };
  if (key.value) all.Authorization = `Bearer ${key.value}`;
  if (!body) return fetch(path, { headers: all, ...options });
  if (!(body instanceof FormData)) all["Content-Type"] = "application/json";
  const sent = body instanceof FormData ? body : JSON.stringify(body);
  return fetch(path, { method: "POST", headers: all, body: sent, ...options });
}

/** The JSON body of an answer; what a proxy says instead of the service is not shown. */
export async function answerOf(response) {
  const body = await response.json().catch(() => null);
  if (response.ok && body instanceof Object) return body;
  if (typeof body?.error === "string") throw refusalOf(body);
  throw new Refusal(`${words("broken")} (${response.status}).`);
}

function refusalOf({ error, code }) {
  const known = {
    key_missing: "needKey", key_invalid: "wrongKey", overloaded: "busy", queue_full: "busy", text_too_long: "tooLong",
    body_too_large: "tooLong", unsupported_language: "unknown",
  }[code];
  return new Refusal(known ? words(known) : error, code);
}

/** The answer to a path, once the service has loaded its models. */
export async function askPatiently(path, onWait) {
  for (;;) {
    const response = await send(path);
    if (response.status !== 503) return answerOf(response);
    onWait();
    await pause(Number(response.headers.get("Retry-After")) || 2);
  }
}

/** Translate as a stream: `onGrowth` gets the text as far as it is certain; the result is the whole answer. */
export async function translate(body, signal, onGrowth) {
  const headers = { Accept: "text/event-stream, application/json;q=0.5" };
  const response = await send("translate", { body, headers, signal });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return answerOf(response);
  for await (const [name, content] of eventsOf(response)) {
    signal.throwIfAborted();
    if (name === "error") throw refusalOf(content);
    if (name === "done") return content;
    onGrowth(content.translatedText);
  }
  throw new TypeError("the stream ended early");
}

/** Yield the name and the content of each Server-Sent Event. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (waiting + part.value).split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const [, name, content] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (name) yield [name, JSON.parse(content)];
    }
  }
}
