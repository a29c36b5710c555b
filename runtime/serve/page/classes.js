// Known classes with their stored shots.
import { REMOVE, ask } from "./dialog.js";
import { $, element, setText, small } from "./dom.js";
import { classesNamed, knownLabelFor } from "./labels.js";
import { message, readable } from "./language.js";
import { picturedShots, showWhenSeen, storedPicture } from "./pictures.js";
import { baseClasses, learnedClasses } from "./selectors.js";
import { change, classPath } from "./service.js";
import { store } from "./store.js";
import { exportClass } from "./transfer.js";

// From so many on, a name is found faster by typing.
const MANY_CLASSES = 12;

export function startClasses() {
  $("class-search").oninput = () => show(store.state);
  store.subscribe(["status", "classes", "language"], show);
}

function show(state) {
  if (!state.status) return;
  const learned = learnedClasses(state), base = baseClasses(state);
  $("counts").textContent = message("counts", { learned: learned.length, base: base.length, free: state.status.free_targets });
  $("known").replaceChildren(...learned.map(({ label }) => element("option", { value: label })));
  const focus = findFocus(), search = $("class-search");
  search.hidden = learned.length < MANY_CLASSES;
  if (search.hidden) search.value = "";
  search.placeholder = message("search");
  const found = classesNamed(search.value, learned);
  setText("search-none", found.length || !learned.length ? "" : message("searchNone"));
  $("learned").replaceChildren(...found.map(classItem));
  if (focus) restoreFocus(focus);
  $("base-title").textContent = message("baseTitle", { count: base.length });
  $("base").textContent = base.filter(({ replaced }) => !replaced).map(({ label }) => readable(label)).join(", ");
  $("learned-none").hidden = learned.length > 0;
  $("stored-hint").hidden = !learned.some((known) => picturedShots(known).length);
}

const controlsOf = (node) => [...node.querySelectorAll("button")];

// The control of a class that has the focus, by its name and by its place; null if the focus is elsewhere.
function findFocus() {
  const control = document.activeElement, items = [...$("learned").children];
  const item = items.findIndex((one) => one.contains(control));
  if (item < 0) return null;
  return { name: control.getAttribute("aria-label"), item, place: controlsOf(items[item]).indexOf(control) };
}

// Gives the focus to the same control, or to what has come into its place.
function restoreFocus({ name, item, place }) {
  const items = [...$("learned").children], controls = items.flatMap(controlsOf);
  const there = controlsOf(items[Math.min(item, items.length - 1)] ?? $("panel-knows"));
  const control = controls.find((one) => one.getAttribute("aria-label") === name) ?? there[place] ?? there.at(-1);
  (control ?? $("panel-knows")).focus({ preventScroll: true });
}

// Asks. The list may be drawn anew meanwhile, and the control that has asked is gone then.
async function askOf(...question) {
  const focus = findFocus(), answer = await ask(...question), { activeElement: focused } = document;
  if (focus && (focused === document.body || $("dialog").contains(focused))) restoreFocus(focus);
  return answer;
}

function classItem(known) {
  const { label, shots: count } = known;
  return element("li", {},
    element("span", {}, readable(label), " ", small(message("shotCount", { count }))),
    element("span", { className: "actions" },
      element("button", { textContent: message("rename"), "aria-label": message("renameOf", known), on: () => rename(label) }),
      element("button", { textContent: message("forget"), "aria-label": message("forgetOf", known), on: () => forget(label) }),
      element("button", { textContent: message("export"), "aria-label": message("exportOf", known), on: () => exportClass(label) })),
    element("ul", { className: "stored", "aria-label": message("storedShots", { label }) },
      ...picturedShots(known).map((shot) => shotItem(label, shot))));
}

// Pressing a stored shot shows it larger, to be moved or removed.
function shotItem(label, shot) {
  const title = message("storedShot", { label, number: shot.number });
  const button = element("button", { title, "aria-label": title, on: () => move(label, shot) });
  showWhenSeen(button, label, shot);
  return element("li", {}, button);
}

async function rename(label) {
  const typed = await askOf(message("renameAsk", { label }), label);
  if (!typed) return;
  // Another thing's name in other capitals is that thing's: the service says so.
  const others = store.state.classes.filter((known) => known.label !== label);
  const to = knownLabelFor(typed, { classes: others, waiting: [] });
  if (to && to !== label) await change("PATCH", classPath(label), { label: to });
}

async function forget(label) {
  const answer = await askOf(message("forgetAsk", { label }), undefined, { yes: message("forget"), remove: message("purge") });
  if (answer === REMOVE) {
    if (await askOf(message("purgeAsk", { label }))) await change("DELETE", `${classPath(label)}?purge=true`);
  } else if (answer) await change("DELETE", classPath(label));
}

// By its id: its number may be another shot's by then.
async function move(label, shot) {
  const path = `${classPath(label)}/shots/${shot.id}`;
  const options = { list: "known", remove: message("removeStored"), picture: storedPicture(label, shot) };
  const answer = await askOf(message("moveAsk", { label, number: shot.number }), label, options);
  if (answer === REMOVE) return change("DELETE", path);
  const to = answer && knownLabelFor(answer, store.state);
  if (to && to !== label) await change("PATCH", path, { label: to });
}
