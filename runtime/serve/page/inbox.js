// The inbox: pictures that were not recognised, those together that are alike, labelled many at once.
import { $, api, ask, call, get, make, say } from "./common.js";
import { picture } from "./pictures.js";

// Pictures that were unchosen, and the names that were typed for pictures: they stay while others come in.
const unchosen = new Set(), typed = new Map();
// Nothing is sent twice, and no field is taken away while something is composed in it.
let sending = false, buttons = [], composing = false, readLater = false;

export async function readInbox() {
  const { groups, most } = await get("inbox");
  if (composing) { readLater = true; return; }
  const frames = groups.flatMap((group) => group.frames), ids = new Set(frames.map(({ id }) => id));
  for (const kept of [unchosen, typed]) [...kept.keys()].forEach((id) => ids.has(id) || kept.delete(id));
  $("inbox").hidden = most === 0;
  $("inbox-count").textContent = frames.length ? say("inboxCount", { count: frames.length }) : say("inboxEmpty");
  $("inbox-clear").hidden = !frames.length;
  $("inbox-clear").onclick = () => clear(frames.length);
  const focused = document.activeElement?.closest("#inbox-groups") && document.activeElement;
  buttons = [];
  $("inbox-groups").replaceChildren(...groups.map(showGroup));
  if (focused) focusAgain(focused);
}

// What had the focus has it again: the field of a group that still has one of its pictures, a picture's own box, a key.
function focusAgain(before) {
  const ids = before.dataset.ids?.split(" ") ?? [];
  const there = [...document.querySelectorAll(`#inbox-groups [data-kind="${before.dataset.kind}"]`)]
    .find((node) => node.dataset.ids.split(" ").some((id) => ids.includes(id)));
  there?.focus();
  if (there?.type === "text") there.setSelectionRange(before.selectionStart, before.selectionEnd, before.selectionDirection);
}

function named(node, kind, ids) {
  Object.assign(node.dataset, { kind, ids: ids.join(" ") });
  return node;
}

function showGroup({ frames }) {
  const ids = frames.map(({ id }) => id);
  const value = typed.get(ids.find((id) => typed.get(id))) ?? "";
  const field = named(make("input", { type: "text", value, autocomplete: "off", maxLength: 64, placeholder: say("inboxLabel"), "aria-label": say("inboxLabel") }), "name", ids);
  field.setAttribute("list", "known");
  const chosen = () => ids.filter((id) => !unchosen.has(id));
  const teach = named(make("button", { className: "main", textContent: say("inboxTeach"), on: () => label(chosen(), field.value.trim(), ids) }), "teach", ids);
  const dismiss = named(make("button", { textContent: say("inboxDismiss"), on: () => send("dismiss", { ids: chosen() }) }), "dismiss", ids);
  const ready = () => {
    dismiss.disabled = sending || !chosen().length;
    teach.disabled = dismiss.disabled || !field.value.trim();
  };
  buttons.push(ready);
  field.addEventListener("input", () => { ids.forEach((id) => typed.set(id, field.value)); ready(); });
  field.addEventListener("compositionstart", () => { composing = true; });
  field.addEventListener("compositionend", () => {
    composing = false;
    if (readLater) readInbox().catch(() => {});
    readLater = false;
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing && !teach.disabled) teach.click(); });
  ready();
  const items = frames.map((frame, index) => {
    const name = say(frame.known && frame.label ? "inboxChoose" : "inboxUnknown", { number: index + 1, label: frame.label });
    const box = named(make("input", { type: "checkbox", checked: !unchosen.has(frame.id), "aria-label": name }), "box", [frame.id]);
    box.addEventListener("change", () => { unchosen[box.checked ? "delete" : "add"](frame.id); ready(); });
    return make("li", {}, make("label", { title: name }, picture(api(`inbox/${frame.id}`), ""), box));
  });
  return make("li", {}, make("p", { className: "small", textContent: frames.length > 1 ? say("inboxGroup", { count: frames.length }) : "" }),
    make("ul", { className: "shots" }, ...items), make("div", { className: "row" }, field, teach, dismiss));
}

function block(value) {
  sending = value;
  buttons.forEach((ready) => ready());
}

async function send(what, body) {
  block(true);
  $("error").textContent = "";
  return call("POST", api(`inbox/${what}`), body).catch(() => null).finally(() => block(false));
}

async function label(chosen, name, ids) {
  const sent = await send("label", { ids: chosen, label: name });
  if (!sent) return;
  ids.forEach((id) => typed.delete(id));
  $("inbox-told").textContent = say("inboxTaken", await sent.json());
  // What was just named is what is learned next.
  $("label").value = name;
  $("label").dispatchEvent(new Event("input"));
}

async function clear(count) {
  if (await ask(say("inboxClearAsk", { count }))) await call("DELETE", api("inbox")).catch(() => {});
}
