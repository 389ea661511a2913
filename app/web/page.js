const [form, text, source, target, swap, translation, button, copy, status, key] = [
  "form", "text", "source", "target", "swap", "translation", "translate", "copy", "status", "key",
].map((id) => document.getElementById(id));

let languages = [];
let detected = null; // Code of the last text's language, where it was detected.

function say(message, failed = false) {
  status.textContent = message;
  status.classList.toggle("failed", failed);
}

function show(words) {
  translation.value = words;
  copy.disabled = !words;
}

const nameOf = (code) => languages.find((language) => language.code === code)?.name ?? code;
const optionOf = ({ code, name }) => new Option(name, code);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function answerOf(response) {
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

/** Offer what the source can be translated into; keep the choice where possible, else another language. */
function offerTargets() {
  const known = languages.find(({ code }) => code === source.value);
  const codes = new Set(known ? known.targets : languages.flatMap(({ targets }) => targets));
  const chosen = target.value;
  target.replaceChildren(...languages.filter(({ code }) => codes.has(code)).map(optionOf));
  const elsewhere = navigator.languages.map((tag) => tag.split("-")[0]).find((code) => codes.has(code));
  target.value = codes.has(chosen) ? chosen : elsewhere ?? target.options[0]?.value;
}

async function loadLanguages() {
  let response = await fetch("languages");
  while (response.status === 503) {
    say("The model is still loading …");
    await pause(Number(response.headers.get("Retry-After")) || 2);
    response = await fetch("languages");
  }
  languages = await answerOf(response);
  source.append(...languages.filter(({ targets }) => targets.length).map(optionOf));
  offerTargets();
  say("");
}

async function translate() {
  const request = { q: text.value, source: source.value, target: target.value };
  const headers = { "Content-Type": "application/json" };
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  const began = performance.now();
  const response = await fetch("translate", { method: "POST", headers, body: JSON.stringify(request) });
  const answer = await answerOf(response);
  show(answer.translatedText);
  say(summary(answer, (performance.now() - began) / 1000));
}

function summary({ detectedLanguage, model, unfinished }, seconds) {
  detected = detectedLanguage?.language ?? null;
  const found = detected && `${nameOf(detected)} detected (${Math.round(detectedLanguage.confidence)} %)`;
  const origin = model ? `${model}, ${seconds.toFixed(2)} s` : "nothing to translate";
  const warning = unfinished && "ended at the length limit, the end may be missing";
  return [warning, found, origin].filter(Boolean).join(" · ");
}

/** Exchange the languages and the texts, where the way back exists. */
function swapLanguages() {
  const [from, to] = [source.value === "auto" ? detected : source.value, target.value];
  source.value = languages.find(({ code }) => code === to)?.targets.length ? to : "auto";
  offerTargets();
  if (from && [...target.options].some(({ value }) => value === from)) target.value = from;
  if (translation.value) {
    text.value = translation.value;
    show("");
  }
  say("");
  text.focus();
}

async function attempt(work) {
  button.disabled = true;
  form.ariaBusy = "true";
  try {
    await work();
  } catch (error) {
    show("");
    say(error instanceof TypeError ? "The service cannot be reached." : error.message, true);
  } finally {
    button.disabled = false;
    form.ariaBusy = "false";
  }
}

source.addEventListener("change", offerTargets);
swap.addEventListener("click", swapLanguages);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !button.disabled) form.requestSubmit();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  say("Translating …");
  attempt(translate);
});
copy.hidden = !navigator.clipboard; // Browsers offer it on secure origins only.
copy.addEventListener("click", async () => {
  await navigator.clipboard.writeText(translation.value);
  say("Copied");
});
attempt(loadLanguages);
