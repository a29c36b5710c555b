// The inbox: pictures that were not recognised, those together that are alike, labelled many at once.
import { $, DOUBLE_CLICK_MS, api, ask, call, get, make, onRelease, pause, pressesKey, say } from "./common.js";
import { picture } from "./pictures.js";
import { goOnWith } from "./shots.js";

const READ_EVERY_MS = 500;

// Pictures that were unchosen, and names that were typed with the pictures they were typed for.
const unchosen = new Set();
let typed = [];
// What is known of the inbox, which is more than what is shown while somebody is at it.
let groups = [], there = new Set();
// Nothing is sent twice.
let sending = false, buttons = [];

// ---- what it holds

let reading = null, readAgain = false;
export function readInbox() {
  if (reading) { readAgain = true; return Promise.resolve(); }
  reading = setTimeout(() => {
    reading = null;
    if (readAgain) readInbox().catch(() => {});
    readAgain = false;
  }, READ_EVERY_MS);
  return read();
}

async function read() {
  const { groups: all, most } = await get("inbox");
  groups = all;
  there = new Set(groups.flatMap(({ frames }) => frames.map(({ id }) => id)));
  [...unchosen].forEach((id) => there.has(id) || unchosen.delete(id));
  $("inbox").hidden = most === 0;
  $("inbox-count").textContent = there.size ? say("inboxCount", { count: there.size }) : say("inboxEmpty");
  $("inbox-clear").hidden = !there.size;
  $("inbox-clear").onclick = () => clear(there.size);
  show();
}

// ---- nothing moves under a finger, or while a name is typed

let pressed = false, composing = false, held = false;
const box = $("inbox-groups");
const isTyping = () => box.contains(document.activeElement) && document.activeElement.type === "text" && document.activeElement.value !== "";
const press = () => { pressed = true; };
const showHeld = () => { if (held) show(); };
// A click comes after its release.
onRelease(() => setTimeout(() => { pressed = false; showHeld(); }));
box.addEventListener("pointerdown", press);
box.addEventListener("keydown", (event) => { if (pressesKey(event)) press(); });
box.addEventListener("compositionstart", () => { composing = true; });
box.addEventListener("compositionend", () => { composing = false; });
// The focus is elsewhere only after it has left.
box.addEventListener("focusout", () => setTimeout(showHeld));

function show() {
  buttons.forEach((ready) => ready());
  held = pressed || composing || isTyping();
  if (held) return;
  const [focused, place] = focus();
  const names = given();
  buttons = [];
  box.replaceChildren(...groups.map((group, index) => showGroup(group, names[index] ?? "")));
  if (focused) focusAgain(focused, place);
}

// What has the focus among the groups, and in which one that is.
function focus() {
  const focused = box.contains(document.activeElement) && document.activeElement;
  return [focused, focused ? [...box.children].findIndex((item) => item.contains(focused)) : 0];
}

// A typed name goes to the group that has most of the pictures that it was typed for.
function given() {
  const names = [];
  typed = typed.filter(({ ids, name }) => {
    const shared = groups.map(({ frames }) => frames.filter(({ id }) => ids.includes(id)).length);
    const most = Math.max(0, ...shared);
    if (most) names[shared.indexOf(most)] = name;
    return most && name;
  });
  return names;
}

// What had the focus has it again: what belongs to a picture that it belonged to, else the name of the next group.
function focusAgain(before, place) {
  const ids = before.dataset.ids?.split(" ") ?? [];
  const again = [...box.querySelectorAll(`[data-kind="${before.dataset.kind}"]`)]
    .find((node) => node.dataset.ids.split(" ").some((id) => ids.includes(id)));
  const next = box.children[Math.min(place, box.children.length - 1)]?.querySelector("[data-kind=name]");
  (again ?? next ?? $("learn")).focus();
}

function named(node, kind, ids) {
  Object.assign(node.dataset, { kind, ids: ids.join(" ") });
  return node;
}

function showGroup({ frames }, name) {
  const ids = frames.map(({ id }) => id);
  const chosen = () => ids.filter((id) => there.has(id) && !unchosen.has(id));
  const field = named(make("input", { type: "text", value: name, autocomplete: "off", maxLength: 64, placeholder: say("inboxLabel"), "aria-label": say("inboxLabel") }), "name", ids);
  field.setAttribute("list", "known");
  const teach = named(make("button", { className: "main", textContent: say("inboxTeach"), on: () => label(chosen(), field) }), "teach", ids);
  const dismiss = named(make("button", { textContent: say("inboxDismiss"), on: () => send("dismiss", { ids: chosen() }) }), "dismiss", ids);
  const ready = () => {
    dismiss.disabled = sending || !chosen().length;
    teach.disabled = dismiss.disabled || !field.value.trim();
  };
  buttons.push(ready);
  field.addEventListener("input", () => {
    typed = typed.filter((other) => !other.ids.some((id) => ids.includes(id)));
    typed.push({ ids, name: field.value });
    ready();
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing && !teach.disabled) teach.click(); });
  ready();
  const items = frames.map((frame, index) => {
    const title = say(frame.known && frame.label ? "inboxChoose" : "inboxUnknown", { number: index + 1, label: frame.label });
    const tick = named(make("input", { type: "checkbox", checked: !unchosen.has(frame.id), "aria-label": title }), "box", [frame.id]);
    const still = () => { tick.disabled = sending; };
    buttons.push(still);
    still();
    tick.addEventListener("change", () => { unchosen[tick.checked ? "delete" : "add"](frame.id); ready(); });
    return make("li", {}, make("label", { title }, picture(api(`inbox/${frame.id}`), ""), tick));
  });
  return make("li", {}, make("p", { className: "small", textContent: frames.length > 1 ? say("inboxGroup", { count: frames.length }) : "" }),
    make("ul", { className: "shots" }, ...items), make("div", { className: "row" }, field, teach, dismiss));
}

// ---- what is done with it

async function send(what, body) {
  const [focused, place] = focus();
  sending = true;
  show();
  $("error").textContent = "";
  const [sent] = await Promise.all([call("POST", api(`inbox/${what}`), body).catch(() => null), pause(DOUBLE_CLICK_MS)]);
  sending = false;
  show();
  // A button that cannot be pressed loses the focus.
  if (focused && document.activeElement === document.body) focusAgain(focused, place);
  return sent;
}

async function label(ids, field) {
  const name = field.value.trim();
  const sent = await send("label", { ids, label: name });
  if (!sent) return;
  typed = typed.filter((other) => !other.ids.some((id) => ids.includes(id)));
  field.value = "";
  $("inbox-told").textContent = say("inboxTaken", await sent.json());
  goOnWith(name);
  show();
}

async function clear(count) {
  if (await ask(say("inboxClearAsk", { count }))) await call("DELETE", api("inbox")).catch(() => {});
}
