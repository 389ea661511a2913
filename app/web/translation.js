/** The translation: it grows; when it is done, its words show where they come from and offer others. */
import { alignmentOf, sourcesOf } from "./alignment.js";
import { alternativesAt } from "./alternatives.js";
import { words } from "./words.js";

const [output, mirror, text, menu] = ["translation", "mirror", "text", "alternatives"].map((id) => document.getElementById(id));

let request = null; // What the translation that is shown whole answers.
let alignment = null;
let work = new AbortController(); // Ends what is asked about this translation.

/** Show a translation as far as it is known. */
export function show(translated, language) {
  work.abort();
  [request, alignment] = [null, null];
  output.value = translated;
  output.lang = language;
  output.removeAttribute("tabindex");
  mark([]);
  menu.hidePopover();
}

/** Show a whole translation, and what it answers. */
export function showWhole(translated, answered) {
  show(translated, answered.target);
  [request, work] = [answered, new AbortController()];
  if (translated) output.tabIndex = 0;
}

/** Make elements of the words, and ask where they come from; a translation stays plain until the pointer is over it. */
async function prepare() {
  if (!request || output.querySelector(".word")) return;
  const segments = new Intl.Segmenter(output.lang, { granularity: "word" }).segment(output.value);
  const isWord = [...segments].map(({ segment, index, isWordLike }) => (isWordLike ? word(segment, index) : segment));
  output.replaceChildren(...isWord);
  const asked = request;
  const found = await alignmentOf(asked, output.value, work.signal).catch(() => null);
  if (request !== asked) return;
  alignment = found;
  const pointed = output.querySelector(".word:hover, .word:focus");
  if (pointed) point(pointed);
}

function word(segment, index) {
  const element = document.createElement("span");
  Object.assign(element, { className: "word", textContent: segment, tabIndex: -1, role: "button", ariaHasPopup: "menu" });
  element.dataset.start = index;
  return element;
}

/** Mark the words of the text that a word of the translation comes from. */
function point(element) {
  const start = Number(element.dataset.start);
  mark(alignment ? sourcesOf(alignment, start, start + element.textContent.length, text.value) : []);
}

/** Mark places of the text, in a copy that lies behind it: a text field cannot show marks itself. */
function mark(places) {
  const parts = [];
  let position = 0;
  for (const [start, end] of places.toSorted(([a], [b]) => a - b)) {
    if (end <= position) continue;
    const element = document.createElement("mark");
    element.textContent = text.value.slice(Math.max(start, position), end);
    parts.push(text.value.slice(position, Math.max(start, position)), element);
    position = end;
  }
  mirror.replaceChildren(...(parts.length ? [...parts, text.value.slice(position), "\n"] : []));
  mirror.scrollTop = text.scrollTop;
}

/** Offer other words in the place of a word; the rest of the translation follows the choice. */
async function offer(element) {
  const [asked, { signal }] = [request, work];
  const items = await alternativesAt(asked, output.value, Number(element.dataset.start), signal).catch(() => []);
  if (signal.aborted) return;
  menu.replaceChildren(...items.map(({ shown, translated }) => {
    const item = document.createElement("button");
    Object.assign(item, { type: "button", role: "menuitem", textContent: shown });
    item.addEventListener("click", () => {
      showWhole(translated, asked);
      output.focus();
    });
    return item;
  }));
  if (!items.length) menu.textContent = words("noOther");
  menu.lang = output.lang;
  const { left, bottom } = element.getBoundingClientRect();
  menu.showPopover();
  Object.assign(menu.style, {
    left: `${Math.min(left, innerWidth - menu.offsetWidth - 8)}px`,
    top: `${Math.min(bottom, innerHeight - menu.offsetHeight - 8)}px`,
  });
  menu.querySelector("button")?.focus();
}

/** Move the focus by some places among elements. */
function move(elements, by) {
  const place = elements.indexOf(document.activeElement);
  elements[Math.min(Math.max(place + by, 0), elements.length - 1)]?.focus();
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

for (const event of ["pointerover", "focusin"]) {
  output.addEventListener(event, async ({ target }) => {
    prepare();
    if (target.matches(".word")) point(target);
  });
}
output.addEventListener("pointerleave", () => mark([]));
output.addEventListener("focusout", () => mark([]));
output.addEventListener("click", ({ target }) => {
  if (target.matches(".word") && getSelection().isCollapsed) offer(target);
});
output.addEventListener("keydown", (event) => {
  if (event.key in STEPS) move([...output.querySelectorAll(".word")], STEPS[event.key]);
  else if (event.key === "Enter" && event.target.matches(".word")) offer(event.target);
  else return;
  event.preventDefault();
});
menu.addEventListener("keydown", (event) => {
  if (!(event.key in STEPS)) return;
  event.preventDefault();
  move([...menu.children], STEPS[event.key]);
});
text.addEventListener("scroll", () => (mirror.scrollTop = text.scrollTop));
