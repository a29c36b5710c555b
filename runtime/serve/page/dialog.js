// Questions to whoever uses the page, one at a time.
import { $ } from "./dom.js";
import { message } from "./language.js";

let last = Promise.resolve();

// Asks for a text, `value` to begin with, or without a value for consent. `list` names a list of proposals.
// Returns the text or true; null if it was cancelled.
export function ask(question, value, list) {
  last = last.catch(() => {}).then(() => new Promise((answer) => open(question, value, list, answer)));
  return last;
}

function open(question, value, list, answer) {
  const dialog = $("dialog"), field = $("dialog-value");
  $("dialog-text").textContent = question;
  field.hidden = value === undefined;
  field.value = value ?? "";
  if (list) field.setAttribute("list", list);
  else field.removeAttribute("list");
  $("dialog-yes").textContent = message("ok");
  let given = null;
  $("dialog-yes").onclick = () => { given = value === undefined ? true : field.value; dialog.close(); };
  $("dialog-no").onclick = () => dialog.close();
  field.onkeydown = (event) => { if (event.key === "Enter") $("dialog-yes").click(); };
  dialog.onclose = () => answer(given);
  dialog.showModal();
}
