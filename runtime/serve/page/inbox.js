// The inbox: pictures that were not recognised, those together that are alike, labelled many at once.
import { $, api, ask, call, get, make, say } from "./common.js";
import { picture } from "./pictures.js";

// Pictures that were unchosen, and names that were typed: they stay while others come in.
const unchosen = new Set(), typed = new Map();

export async function readInbox() {
  const { groups, most } = await get("inbox");
  const frames = groups.flatMap((group) => group.frames);
  $("inbox").hidden = most === 0;
  $("inbox-count").textContent = frames.length ? say("inboxCount", { count: frames.length }) : say("inboxEmpty");
  $("inbox-clear").hidden = !frames.length;
  $("inbox-clear").onclick = () => clear(frames.length);
  const focused = document.activeElement?.closest("#inbox-groups") && document.activeElement.dataset.key;
  $("inbox-groups").replaceChildren(...groups.map(showGroup));
  if (focused) document.querySelector(`[data-key="${focused}"]`)?.focus();
}

function showGroup({ frames }) {
  const key = frames[0].id;
  const field = make("input", { type: "text", value: typed.get(key) ?? "", autocomplete: "off", maxLength: 64, placeholder: say("inboxLabel"), "aria-label": say("inboxLabel") });
  field.setAttribute("list", "known");
  field.dataset.key = `name-${key}`;
  const chosen = () => frames.map(({ id }) => id).filter((id) => !unchosen.has(id));
  const teach = make("button", { className: "main", textContent: say("inboxTeach"), on: () => label(chosen(), field.value.trim(), key) });
  const dismiss = make("button", { textContent: say("inboxDismiss"), on: () => send("dismiss", { ids: chosen() }) });
  const ready = () => {
    teach.disabled = !field.value.trim() || !chosen().length;
    dismiss.disabled = !chosen().length;
  };
  field.addEventListener("input", () => { typed.set(key, field.value); ready(); });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter" && !teach.disabled) teach.click(); });
  ready();
  const items = frames.map((frame, index) => {
    const name = say(frame.known && frame.label ? "inboxChoose" : "inboxUnknown", { number: index + 1, label: frame.label });
    const box = make("input", { type: "checkbox", checked: !unchosen.has(frame.id), "aria-label": name });
    box.dataset.key = `frame-${frame.id}`;
    box.addEventListener("change", () => { unchosen[box.checked ? "delete" : "add"](frame.id); ready(); });
    return make("li", {}, make("label", { title: name }, picture(api(`inbox/${frame.id}`), ""), box));
  });
  return make("li", {}, make("p", { className: "small", textContent: frames.length > 1 ? say("inboxGroup", { count: frames.length }) : "" }),
    make("ul", { className: "shots" }, ...items), make("div", { className: "row" }, field, teach, dismiss));
}

async function send(what, body) {
  $("error").textContent = "";
  return call("POST", api(`inbox/${what}`), body).catch(() => null);
}

async function label(ids, name, key) {
  const sent = await send("label", { ids, label: name });
  if (!sent) return;
  typed.delete(key);
  $("inbox-told").textContent = say("inboxTaken", await sent.json());
  // What was just named is what is learned next.
  $("label").value = name;
  $("label").dispatchEvent(new Event("input"));
}

async function clear(count) {
  if (await ask(say("inboxClearAsk", { count }))) await call("DELETE", api("inbox")).catch(() => {});
}
