// Radio buttons of which one is chosen. They stay where they are while their texts change: whoever moves among them with
// the arrow keys keeps the focus.
import { element } from "./dom.js";

// Shows choices `{ value, label, note }` in `box`; `choose` is called with the value of one that is pressed.
export function showChoices(box, name, choices, chosen, choose) {
  if (box.children.length !== choices.length) {
    box.replaceChildren(...choices.map(({ value }) => choiceItem(name, value, choose)));
  }
  [...box.children].forEach((item, index) => {
    const [radio, text] = item.children, { value, label, note = "" } = choices[index];
    radio.value = value;
    radio.checked = value === chosen;
    text.firstChild.textContent = label;
    text.lastChild.textContent = note;
  });
}

function choiceItem(name, value, choose) {
  const radio = element("input", { type: "radio", name, value });
  radio.addEventListener("change", () => choose(radio.value));
  const text = element("span", {}, element("span"), element("span", { className: "small" }));
  return element("label", {}, radio, text);
}
