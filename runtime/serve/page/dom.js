// Elements of the page, errors, timers, and clicks by pointer or key.

export const $ = (id) => document.getElementById(id);

// A new element; `on` is called when it is clicked.
export function element(tag, { on, ...properties } = {}, ...children) {
  const node = document.createElement(tag);
  if (on) node.addEventListener("click", on);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key === "role" || key === "list") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children);
  return node;
}

// Draws what a box holds anew. The focus stays on the same control, by its value or its text, or what is in its place.
export function redraw(box, nodes) {
  const controls = () => [...box.querySelectorAll("button, summary")], name = ({ value, textContent }) => value || textContent;
  const { activeElement: focused } = document, place = box.contains(focused) ? controls().indexOf(focused) : -1;
  box.replaceChildren(...nodes);
  if (place < 0) return;
  const others = controls(), same = others.find((one) => name(one) === name(focused));
  (same ?? others[Math.min(place, others.length - 1)])?.focus({ preventScroll: true });
}

// Removes the nodes of a map whose keys are not among these.
export function removeOthers(nodes, keys) {
  for (const [key, node] of nodes) {
    if (keys.includes(key)) continue;
    node.remove();
    nodes.delete(key);
  }
}

export const small = (textContent) => element("span", { className: "small", textContent });

// Lays an element over its parent, in pixels of that.
export function setPlace(node, [left, top, width, height]) {
  Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}

// How long the address of a saved file stays valid: Safari first asks whether to save it.
const SAVING_MS = 40_000;

// Saves a file to the browser's downloads.
export function saveFile(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SAVING_MS);
}

// Screen readers do not read out again what has not changed. Safari drops a click whose text is replaced between press
// and release, even by the same text.
export function setTextOf(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const setText = (id, text) => setTextOf($(id), text);

export const shownError = () => $("error").textContent;

// The error of the last request, or none. It stays until it is closed, something else is done, or there was time to
// read it.
export function showError(sentence = "") {
  clearTimeout(closing);
  $("error-bar").hidden = !sentence;
  $("error").textContent = sentence;
  if (sentence) closing = setTimeout(closeError, READ_MS);
}

const READ_MS = 20_000;
let closing;

function closeError() {
  const isInUse = document.hidden || $("error-bar").matches(":hover, :focus-within");
  showError(isInUse ? shownError() : "");
}

export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The second half of a double click must not reach what the first has brought under the pointer.
export const DOUBLE_CLICK_MS = 500;
// A click that a key makes has no count. Whoever presses keys needs the focus where the work goes on.
export const isByKey = (click) => click.detail === 0;
// Whether nothing has the focus, as once its button is disabled. Whoever has gone elsewhere meanwhile keeps it.
export const isFocusLost = () => document.activeElement === document.body;
// Whether a key belongs to the composition of a character. Safari says so by 229 alone of the key that ends it.
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
export const isPressKey = ({ key }) => key === " " || key === "Enter";

// Calls `listener` when whatever was pressed is released, here or elsewhere.
export function onRelease(listener) {
  ["pointerup", "pointercancel", "keyup", "blur"].forEach((name) => window.addEventListener(name, listener));
}
