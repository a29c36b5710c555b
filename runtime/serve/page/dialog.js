// Questions to whoever uses the page, one at a time.
import { $, DOUBLE_CLICK_MS, isComposing } from "./dom.js";
import { message } from "./language.js";

let last = Promise.resolve();
// When a question was answered last, in milliseconds of the page.
let answered = -Infinity;

// What is answered where somebody would rather have the thing removed.
export const REMOVE = Symbol("remove");

// Asks for a text, `value` to begin with, or without a value for consent. `list` has proposals, `yes` names consent,
// `remove` is the text of a button that answers REMOVE, `picture` what is asked about. Returns the text or true; null
// if cancelled.
export function ask(question, value, options = {}) {
  last = last.catch(() => {}).then(() => new Promise((answer) => open(question, value, options, answer)));
  return last;
}

function open(question, value, { list, yes, remove, picture }, answer) {
  const dialog = $("dialog"), field = $("dialog-value");
  $("dialog-text").textContent = question;
  $("dialog-picture").replaceChildren(...(picture ? [picture] : []));
  field.hidden = value === undefined;
  field.value = value ?? "";
  if (list) field.setAttribute("list", list);
  else field.removeAttribute("list");
  $("dialog-yes").textContent = yes ?? message("ok");
  let given = null;
  $("dialog-yes").onclick = () => { given = value === undefined ? true : field.value; dialog.close(); };
  $("dialog-no").onclick = () => dialog.close();
  $("dialog-remove").hidden = !remove;
  $("dialog-remove").textContent = remove ?? "";
  $("dialog-remove").onclick = () => { given = REMOVE; dialog.close(); };
  field.onkeydown = (event) => {
    if (event.key !== "Enter" || event.repeat || isComposing(event)) return;
    // The focus goes back at once to what was pressed before, which the key would press again.
    event.preventDefault();
    $("dialog-yes").click();
  };
  dialog.onclose = () => {
    answered = performance.now();
    answer(given);
  };
  dialog.showModal();
  // Safari begins before what is there: what is typed would not take its place.
  if (value) field.select();
  holdBack($("dialog-yes"));
}

let holding;

// The second half of a double click must not answer the next question.
function holdBack(button) {
  clearTimeout(holding);
  button.disabled = false;
  if (performance.now() - answered >= DOUBLE_CLICK_MS) return;
  const isFocused = document.activeElement === button, other = $("dialog-no");
  button.disabled = true;
  if (isFocused) other.focus();
  holding = setTimeout(() => {
    button.disabled = false;
    if (isFocused && document.activeElement === other) button.focus();
  }, DOUBLE_CLICK_MS);
}
