const element = (id) => document.getElementById(id);
const [form, text, source, target, translation, button, status, key] = [
  "form", "text", "source", "target", "translation", "translate", "status", "key",
].map(element);

let languages = [];

function say(message, failed = false) {
  status.textContent = message;
  status.classList.toggle("failed", failed);
}

async function answerOf(response) {
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

function option({ code, name }) {
  return new Option(name, code);
}

function offerTargets() {
  const known = languages.find(({ code }) => code === source.value);
  const codes = new Set(known ? known.targets : languages.flatMap(({ targets }) => targets));
  const chosen = target.value;
  target.replaceChildren(...languages.filter(({ code }) => codes.has(code)).map(option));
  if (codes.has(chosen)) target.value = chosen;
}

async function loadLanguages() {
  languages = await answerOf(await fetch("languages"));
  source.append(...languages.filter(({ targets }) => targets.length).map(option));
  offerTargets();
}

async function translate() {
  const request = { q: text.value, source: source.value, target: target.value };
  const headers = { "Content-Type": "application/json" };
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  const response = await fetch("translate", { method: "POST", headers, body: JSON.stringify(request) });
  const answer = await answerOf(response);
  translation.value = answer.translatedText;
  const found = answer.detectedLanguage && languages.find(({ code }) => code === answer.detectedLanguage.language);
  say(found ? `Detected ${found.name} (${Math.round(answer.detectedLanguage.confidence)} %)` : "");
}

async function attempt(work) {
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    say(error.message, true);
  } finally {
    button.disabled = false;
  }
}

source.addEventListener("change", offerTargets);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  say("Translating …");
  attempt(translate);
});
attempt(loadLanguages);
