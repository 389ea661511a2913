import { fillIn, nameOf, words } from "./words.js";

const [form, text, source, target, swap, translation, clear, copy, link, count, status, access, key] = [
  "form", "text", "source", "target", "swap", "translation", "clear", "copy", "link", "count", "status", "access", "key",
].map((id) => document.getElementById(id));

const PAUSE = 400; // Milliseconds without a key stroke after which the text is translated.

let languages = [];
let maxCharacters = Infinity;
let detected = null; // Code of the last text's language, where it was detected.
let running = new AbortController(); // Ends the last request.
let timer = 0;

class Refusal extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

function say(message, failed = false) {
  status.textContent = message;
  status.classList.toggle("failed", failed);
}

function show(translated) {
  translation.value = translated;
  translation.lang = target.value;
  copy.disabled = !translated;
}

const optionOf = (language) => new Option(nameOf(language), language.code);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** The JSON body of an answer; what a proxy says instead of the service is not shown. */
async function answerOf(response) {
  const body = await response.json().catch(() => null);
  if (response.ok && body instanceof Object) return body;
  if (typeof body?.error === "string") throw refusalOf(body);
  throw new Refusal(`${words("broken")} (${response.status}).`);
}

function refusalOf({ error, code }) {
  const known = {
    key_missing: "needKey", key_invalid: "wrongKey", overloaded: "busy", queue_full: "busy", text_too_long: "tooLong",
    unsupported_language: "unknown",
  }[code];
  return new Refusal(known ? words(known) : error, code);
}

/** Offer what the source can be translated into; keep the choice where possible, else another language. */
function offerTargets() {
  const known = languages.find(({ code }) => code === source.value);
  const codes = new Set(known ? known.targets : languages.flatMap(({ targets }) => targets));
  const chosen = target.value || localStorage.target;
  target.replaceChildren(...languages.filter(({ code }) => codes.has(code)).map(optionOf));
  const elsewhere = navigator.languages.map((tag) => tag.split("-")[0]).find((code) => codes.has(code));
  target.value = codes.has(chosen) ? chosen : elsewhere ?? target.options[0]?.value;
}

async function loadLanguages() {
  let response = await fetch("languages");
  while (response.status === 503) {
    say(words("loading"));
    await pause(Number(response.headers.get("Retry-After")) || 2);
    response = await fetch("languages");
  }
  languages = await answerOf(response);
  source.append(...languages.filter(({ targets }) => targets.length).map(optionOf));
  if ([...source.options].some(({ value }) => value === localStorage.source)) source.value = localStorage.source;
  offerTargets();
  const models = await answerOf(await fetch("models"));
  maxCharacters = Math.max(...models.map(({ limits }) => limits.max_chars));
  say("");
  translate();
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

/** Translate the text as it is now; an answer to an earlier text is never shown. */
async function translate() {
  clearTimeout(timer);
  running.abort();
  running = new AbortController();
  const { signal } = running;
  remember();
  if (!text.value.trim() || !target.value) {
    form.ariaBusy = "false";
    show("");
    say("");
    return;
  }
  say(words("working"));
  form.ariaBusy = "true";
  try {
    await showAnswer(signal);
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) form.ariaBusy = "false";
  }
}

async function showAnswer(signal) {
  const began = performance.now();
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream, application/json;q=0.5" };
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  const body = JSON.stringify({ q: text.value, source: source.value, target: target.value });
  const response = await fetch("translate", { method: "POST", headers, body, signal });
  const isStream = response.headers.get("Content-Type")?.startsWith("text/event-stream");
  if (!isStream) {
    finish(await answerOf(response), began);
    return;
  }
  for await (const [name, content] of eventsOf(response)) {
    if (signal.aborted) return;
    if (name === "error") throw refusalOf(content);
    if (name === "partial") show(content.translatedText);
    else return finish(content, began);
  }
  if (!signal.aborted) throw new TypeError("the stream ended early");
}

function finish(answer, began) {
  show(answer.translatedText);
  detected = answer.detectedLanguage?.language ?? null;
  if (detected === target.value) flipTarget();
  else say(summary(answer, (performance.now() - began) / 1000));
}

/** The text is in the target language: translate it into another one instead of repeating it. */
function flipTarget() {
  const other = [localStorage.former, ...[...target.options].map(({ value }) => value)]
    .find((code) => code && code !== target.value && [...target.options].some(({ value }) => value === code));
  if (!other) return say(words("same"));
  target.value = other;
  return translate();
}

function summary({ detectedLanguage, model, unfinished }, seconds) {
  const found = detected && `${nameOf({ code: detected, name: detected })} ${words("detected")} (${Math.round(detectedLanguage.confidence)} %)`;
  const origin = model && `${model}, ${seconds.toFixed(2)} s`;
  return [unfinished && words("short"), found, origin].filter(Boolean).join(" · ");
}

function fail(error) {
  show("");
  say(error instanceof TypeError ? words("gone") : error.message, true);
  if (error.code === "key_missing" || error.code === "key_invalid") {
    access.open = true;
    key.focus();
  }
}

function remember() {
  if (target.value && target.value !== localStorage.target) localStorage.former = localStorage.target ?? "";
  Object.assign(localStorage, { source: source.value, target: target.value, text: text.value, apiKey: key.value });
  const isLong = text.value.length > maxCharacters;
  count.textContent = text.value ? `${text.value.length}${maxCharacters < Infinity ? ` / ${maxCharacters}` : ""}` : "";
  count.classList.toggle("failed", isLong);
}

/** Translate anew; what is shown is in the wrong language. */
function changeLanguage() {
  show("");
  translate();
}

/** Exchange the languages and the texts, where the way back exists, and translate. */
function swapLanguages() {
  const [from, to] = [source.value === "auto" ? detected : source.value, target.value];
  source.value = languages.find(({ code }) => code === to)?.targets.length ? to : "auto";
  offerTargets();
  if (from && [...target.options].some(({ value }) => value === from)) target.value = from;
  if (translation.value) text.value = translation.value;
  translate();
  text.focus();
}

function readLink() {
  const linked = new URLSearchParams(location.hash.slice(1));
  text.value = linked.get("text") ?? localStorage.text ?? "";
  for (const name of ["source", "target"]) if (linked.has(name)) localStorage[name] = linked.get(name);
  key.value = localStorage.apiKey ?? "";
}

async function copyText(content, message) {
  await navigator.clipboard.writeText(content);
  say(words(message));
}

text.addEventListener("input", () => {
  clearTimeout(timer);
  running.abort();
  say("");
  timer = setTimeout(translate, PAUSE);
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
source.addEventListener("change", () => {
  offerTargets();
  changeLanguage();
});
target.addEventListener("change", changeLanguage);
key.addEventListener("change", translate);
swap.addEventListener("click", swapLanguages);
clear.addEventListener("click", () => {
  text.value = "";
  translate();
  text.focus();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
copy.hidden = link.hidden = !navigator.clipboard; // Browsers offer it on secure origins only.
copy.addEventListener("click", () => copyText(translation.value, "copied"));
link.addEventListener("click", () => {
  location.hash = new URLSearchParams({ source: source.value, target: target.value, text: text.value });
  copyText(location.href, "linked");
});
fillIn();
readLink();
loadLanguages().catch(fail);
