import { save, translateDocument } from "./documents.js";
import { answerOf, askPatiently, send, translate as ask } from "./service.js";
import { canSpeak, speak } from "./speech.js";
import { show as showTranslation, showWhole } from "./translation.js";
import { fillIn, nameOf, words } from "./words.js";

const byId = (...ids) => ids.map((id) => document.getElementById(id));
const [form, text, source, target, swap, translation] = byId("form", "text", "source", "target", "swap", "translation");
const [clear, copy, listen, link, open, file] = byId("clear", "copy", "listen", "link", "open", "file");
const [count, status, progress, cancel, access, key] = byId("count", "status", "progress", "cancel", "access", "key");

const PAUSE = 400; // Milliseconds without a key stroke after which the text is translated.

let languages = [];
let maxCharacters = Infinity;
let detected = null; // Code of the last text's language, where it was detected.
let running = new AbortController(); // Ends the last request.
let sending = new AbortController(); // Ends the last document.
let timer = 0;

function say(message, failed = false) {
  status.textContent = message;
  status.classList.toggle("failed", failed);
}

function show(translated, answered = null) {
  if (answered) showWhole(translated, answered);
  else showTranslation(translated, target.value);
  copy.disabled = !translated;
  listen.disabled = !translated;
  listen.hidden = !canSpeak(target.value);
}

const optionOf = (language) => new Option(nameOf(language), language.code);
const optionsOf = (select) => [...select.options].map(({ value }) => value);

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
  languages = await askPatiently("languages", () => say(words("loading")));
  source.append(...languages.filter(({ targets }) => targets.length).map(optionOf));
  if (optionsOf(source).includes(localStorage.source)) source.value = localStorage.source;
  offerTargets();
  const settings = await answerOf(await send("frontend/settings"));
  maxCharacters = settings.charLimit;
  file.accept = settings.supportedFilesFormat.join();
  say("");
  translate();
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
  const began = performance.now();
  const request = { q: text.value, source: source.value, target: target.value };
  try {
    const answer = await ask(request, signal, (partial) => show(partial));
    if (!signal.aborted) finish(answer, request, (performance.now() - began) / 1000);
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) form.ariaBusy = "false";
  }
}

function finish(answer, request, seconds) {
  detected = answer.detectedLanguage?.language ?? null;
  show(answer.translatedText, { ...request, source: detected ?? request.source });
  if (detected === target.value) flipTarget();
  else say(summary(answer, seconds));
}

/** The text is in the target language: translate it into another one instead of repeating it. */
function flipTarget() {
  const codes = optionsOf(target);
  const other = [localStorage.former, ...codes].find((code) => code !== target.value && codes.includes(code));
  if (!other) return say(words("same"));
  target.value = other;
  return translate();
}

function summary({ detectedLanguage, model, unfinished }, seconds) {
  const confidence = Math.round(detectedLanguage?.confidence);
  const found = detected && `${nameOf({ code: detected, name: detected })} ${words("detected")} (${confidence} %)`;
  const origin = model && `${model}, ${seconds.toFixed(2)} s`;
  return [unfinished && words("short"), found, origin].filter(Boolean).join(" · ");
}

function fail(error) {
  show("");
  tell(error);
}

function tell(error) {
  say(error instanceof TypeError ? words("gone") : error.message, true);
  if (error.code === "key_missing" || error.code === "key_invalid") {
    access.open = true;
    key.focus();
  }
}

function remember() {
  if (target.value && target.value !== localStorage.target) localStorage.former = localStorage.target ?? "";
  // Storage has a method `key`.
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
  if (from && optionsOf(target).includes(from)) target.value = from;
  if (translation.value) text.value = translation.value;
  changeLanguage();
  text.focus();
}

/** Translate a document, and save the result. */
async function translateFile(document) {
  sending.abort();
  sending = new AbortController();
  const { signal } = sending;
  const to = target.value;
  progress.hidden = cancel.hidden = false;
  progress.removeAttribute("value");
  say(`${words("working")} ${document.name}`);
  try {
    const languagesChosen = { source: source.value, target: to };
    const translated = await translateDocument(document, languagesChosen, signal, (share) => (progress.value = share));
    save(translated, document.name, to);
    say(`${words("saved")} ${document.name}`);
  } catch (error) {
    if (signal.aborted) say(words("cancelled"));
    else tell(error);
  } finally {
    if (sending.signal === signal) progress.hidden = cancel.hidden = true;
  }
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
listen.addEventListener("click", () => speak(translation.value, translation.lang));
copy.hidden = link.hidden = !navigator.clipboard; // Browsers offer it on secure origins only.
copy.addEventListener("click", () => copyText(translation.value, "copied"));
link.addEventListener("click", () => {
  location.hash = new URLSearchParams({ source: source.value, target: target.value, text: text.value });
  copyText(location.href, "linked");
});
open.addEventListener("click", () => file.click());
file.addEventListener("change", () => {
  if (file.files.length) translateFile(file.files[0]);
  file.value = "";
});
cancel.addEventListener("click", () => sending.abort());
form.addEventListener("dragover", (event) => event.preventDefault());
form.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  translateFile(event.dataTransfer.files[0]);
});
fillIn();
readLink();
loadLanguages().catch(fail);
