// The inbox: pictures that were not recognised, similar ones together, labelled many at once. A few groups are shown at
// a time, and pictures that may not belong to their group stand apart.
import { ask } from "./dialog.js";
import { $, DOUBLE_CLICK_MS, element, isComposing, isFocusLost, isPressKey, onRelease, setText, showError, sleep } from "./dom.js";
import { knownLabelFor, labelOf } from "./labels.js";
import { message } from "./language.js";
import { picture } from "./pictures.js";
import { api, call, change } from "./service.js";
import { chooseLabel } from "./shots.js";
import { store } from "./store.js";
import { chooseTab } from "./tabs.js";

// More are a wall; the next come up when these are done.
const MOST_GROUPS = 3;

// Pictures that somebody chose or unchose, by their ids, and labels that were typed with the ids they were typed for.
const decisions = new Map();
let typed = [];
// Nothing is sent twice.
let isSending = false;
// Each enables or disables a control; replaced when the groups are drawn.
let enablers = [];
// The groups are not drawn while somebody is at them.
let isPressed = false, isInComposition = false, isHeld = false;

const idsOf = ({ frames }) => frames.map(({ id }) => id);
const allGroups = () => store.state.inbox?.groups ?? [];
const groups = () => allGroups().slice(0, MOST_GROUPS);
const presentIds = () => new Set(allGroups().flatMap(idsOf));

// What may not belong to its group is not chosen unless somebody chooses it.
const isChosen = ({ id, typical }) => decisions.get(id) ?? typical !== false;

export function startInbox() {
  store.subscribe(["inbox", "language"], show);
  $("inbox-teach").onclick = goOn;
  const box = $("inbox-groups");
  const press = () => { isPressed = true; };
  const drawHeld = () => { if (isHeld) draw(); };
  // A click comes after its release.
  onRelease(() => setTimeout(() => { isPressed = false; drawHeld(); }));
  box.addEventListener("pointerdown", press);
  box.addEventListener("keydown", (event) => { if (isPressKey(event)) press(); });
  box.addEventListener("compositionstart", () => { isInComposition = true; });
  box.addEventListener("compositionend", () => { isInComposition = false; });
  // The focus is elsewhere only after it has left.
  box.addEventListener("focusout", () => setTimeout(drawHeld));
}

function show({ inbox }) {
  if (!inbox) return;
  const present = presentIds(), count = present.size;
  [...decisions.keys()].filter((id) => !present.has(id)).forEach((id) => decisions.delete(id));
  setText("inbox-count", count ? message("inboxCount", { count }) : message(inbox.most ? "inboxEmpty" : "inboxOff"));
  setText("inbox-more", moreSentence(inbox.groups));
  $("inbox-clear").hidden = !count;
  $("inbox-clear").onclick = () => clear(count);
  draw();
}

// How many pictures became shots.
export const takenSentence = ({ taken, label }) => message("inboxTaken", { count: taken, label });

// How many pictures wait behind those that are shown.
export function moreSentence(groups) {
  const count = groups.slice(MOST_GROUPS).flatMap(idsOf).length;
  return count ? message("inboxMore", { count }) : "";
}

// ---- groups, which do not move under a finger or while a label is typed

function isTyping() {
  const field = document.activeElement;
  return $("inbox-groups").contains(field) && field.type === "text" && field.value !== "";
}

function draw() {
  enablers.forEach((enable) => enable());
  isHeld = isPressed || isInComposition || isTyping();
  if (isHeld) return;
  const focus = findFocus();
  // What was typed for a group that has to wait is kept until it comes up.
  const assigned = assignLabels(allGroups(), typed);
  typed = assigned.typed;
  enablers = [];
  $("inbox-groups").replaceChildren(...groups().map((group, index) => groupItem(group, assigned.labels[index] ?? "")));
  if (focus) restoreFocus(focus);
}

// A typed label goes to the group that has most of the pictures that it was typed for; without such a group it is
// forgotten. Returns the labels by the groups' indices, and what is still typed.
export function assignLabels(groups, typed) {
  const labels = [];
  const kept = typed.filter(({ ids, label }) => {
    const shared = groups.map((group) => idsOf(group).filter((id) => ids.includes(id)).length);
    const most = Math.max(0, ...shared);
    if (most) labels[shared.indexOf(most)] = label;
    return most && label;
  });
  return { labels, typed: kept };
}

// The control among the groups that has the focus, and the index of its group; null if it is elsewhere.
function findFocus() {
  const box = $("inbox-groups"), control = document.activeElement;
  if (!box.contains(control)) return null;
  return { control, index: [...box.children].findIndex((item) => item.contains(control)) };
}

// Gives the focus to the same control for one of the same pictures, else to the label of the next group.
function restoreFocus({ control, index }) {
  const box = $("inbox-groups"), ids = control.dataset.ids?.split(" ") ?? [];
  const same = [...box.querySelectorAll(`[data-kind="${control.dataset.kind}"]`)]
    .find((other) => other.dataset.ids.split(" ").some((id) => ids.includes(id)));
  const next = box.children[Math.min(index, box.children.length - 1)]?.querySelector("[data-kind=name]");
  (same ?? next ?? $("learn")).focus();
}

// ---- one group

// A control that is found again by its kind and the pictures that it belongs to.
function control(kind, ids, tag, properties) {
  const node = element(tag, properties);
  Object.assign(node.dataset, { kind, ids: ids.join(" ") });
  return node;
}

function groupItem(group, label) {
  const ids = idsOf(group);
  const chosen = () => {
    const present = presentIds();
    return group.frames.filter((frame) => present.has(frame.id) && isChosen(frame)).map(({ id }) => id);
  };
  const title = message("inboxLabel");
  const field = control("name", ids, "input",
    { type: "text", dir: "auto", value: label, autocomplete: "off", maxLength: 64, placeholder: title, "aria-label": title, list: "known" });
  const teach = control("teach", ids, "button",
    { className: "main", textContent: message("inboxTeach"), on: () => teachGroup(chosen(), field) });
  const dismiss = control("dismiss", ids, "button",
    { textContent: message("inboxDismiss"), on: () => send("dismiss", { ids: chosen() }) });
  const enable = () => {
    dismiss.disabled = isSending || !chosen().length;
    teach.disabled = dismiss.disabled || !labelOf(field.value);
  };
  enablers.push(enable);
  enable();
  field.addEventListener("input", () => {
    forgetTyped(ids);
    typed.push({ ids, label: field.value });
    enable();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !isComposing(event) && !teach.disabled) teach.click();
  });
  const size = group.frames.length;
  return element("li", {},
    element("p", { className: "small", textContent: size > 1 ? message("inboxGroup", { count: size }) : "" }),
    ...frameLists(group.frames, enable),
    element("div", { className: "row" }, field, teach, dismiss));
}

// Those that are like the rest of their group, then the others.
function frameLists(frames, onChange) {
  const list = (some) => element("ul", { className: "shots" },
    ...some.map((frame) => frameItem(frame, frames.indexOf(frame) + 1, onChange)));
  const typical = frames.filter((frame) => frame.typical !== false);
  const others = frames.filter((frame) => frame.typical === false);
  if (!others.length) return [list(typical)];
  return [list(typical), element("p", { className: "small", textContent: message("inboxOthers") }), list(others)];
}

function forgetTyped(ids) {
  typed = typed.filter((other) => !other.ids.some((id) => ids.includes(id)));
}

// A picture of a group with the box that chooses it.
function frameItem(frame, number, onChange) {
  const { id, known, label } = frame;
  const title = message(known && label ? "inboxChoose" : "inboxUnknown", { number, label });
  const box = control("box", [id], "input", { type: "checkbox", checked: isChosen(frame), "aria-label": title });
  const enable = () => { box.disabled = isSending; };
  enablers.push(enable);
  enable();
  box.addEventListener("change", () => {
    decisions.set(id, box.checked);
    onChange();
  });
  return element("li", {}, element("label", { title }, picture(api(`inbox/${id}`)), box));
}

// ---- what is done with pictures

async function send(action, body) {
  const focus = findFocus();
  isSending = true;
  draw();
  showError();
  const request = call("POST", api(`inbox/${action}`), body).catch(() => null);
  const [response] = await Promise.all([request, sleep(DOUBLE_CLICK_MS)]);
  isSending = false;
  draw();
  if (focus && isFocusLost()) restoreFocus(focus);
  return response;
}

async function teachGroup(ids, field) {
  const label = knownLabelFor(field.value, store.state);
  const response = await send("label", { ids, label });
  if (!response) return;
  forgetTyped(ids);
  field.value = "";
  setText("inbox-taken", takenSentence(await response.json()));
  $("inbox-result").hidden = false;
  chooseLabel(label);
  draw();
  $("inbox-result").scrollIntoView({ block: "nearest" });
}

// To where the new shots can be learned.
function goOn() {
  $("inbox-result").hidden = true;
  chooseTab("teach");
  ($("learn").disabled ? $("label") : $("learn")).focus();
}

async function clear(count) {
  if (await ask(message("inboxClearAsk", { count }))) await change("DELETE", "inbox");
}
