// Regions of the service's own camera: drawn on its picture, named, removed.
import { ask } from "./dialog.js";
import { $, element, removeOthers, setPlace, setText, showError } from "./dom.js";
import { nameSides, placeInPicture, placeInView, regionBetween } from "./geometry.js";
import { labelOf } from "./labels.js";
import { isolate, message, readable } from "./language.js";
import { refusalText } from "./refusals.js";
import { thingName } from "./selectors.js";
import { api, call } from "./service.js";
import { pictureSize, viewSize } from "./source.js";
import { store } from "./store.js";

export function startRegions() {
  drawn = element("div", { className: "region", hidden: true });
  $("region-draw").onclick = () => setDrawing(!isDrawing);
  const place = ({ clientX, clientY }) => {
    const { left, top } = $("view").getBoundingClientRect();
    return placeInPicture([clientX - left, clientY - top], pictureSize(store.state), viewSize());
  };
  $("view").addEventListener("pointerdown", (event) => {
    if (!isDrawing || !pictureSize(store.state)?.[0]) return;
    event.preventDefault();
    $("view").setPointerCapture(event.pointerId);
    from = place(event);
  });
  $("view").addEventListener("pointermove", (event) => {
    if (!from) return;
    const part = regionBetween(from, place(event));
    drawn.hidden = !part;
    if (part) setPlace(drawn, placeInView(part, pictureSize(store.state), viewSize()));
  });
  $("view").addEventListener("pointerup", (event) => {
    if (!from) return;
    const part = regionBetween(from, place(event));
    stop();
    if (part) add(part).catch(() => {});
  });
  $("view").addEventListener("pointercancel", stop);
  $("regions").append(drawn);
  addEventListener("keydown", ({ key }) => { if (key === "Escape" && isDrawing) stop(); });
  store.subscribe(["deviceCamera", "deviceChosen", "regions", "language"], showTools);
  showTools(store.state);
}

let isDrawing = false, from = null;
// The rectangle that is being drawn.
let drawn = null;

function setDrawing(is) {
  isDrawing = is;
  $("region-draw").setAttribute("aria-pressed", String(is));
  $("view").classList.toggle("drawing", is);
  showTools(store.state);
}

function stop() {
  from = null;
  drawn.hidden = true;
  setDrawing(false);
}

async function add(box) {
  const name = labelOf(await ask(message("regionName"), "") ?? "");
  if (name) await set([...store.state.regions, { name, box }]);
}

async function remove(name) {
  if (await ask(message("regionRemove", { label: name }))) {
    await set(store.state.regions.filter((region) => region.name !== name));
  }
}

async function set(regions) {
  showError();
  const answer = await (await call("POST", api("regions"), { regions })).json();
  store.update({ regions: answer.regions });
}

function showTools({ deviceCamera, deviceChosen, regions }) {
  $("region-tools").hidden = !deviceChosen || !deviceCamera;
  $("region-draw").textContent = message(isDrawing ? "cancel" : "regionDraw");
  setText("region-state", message(isDrawing ? "regionDrag" : regions.length ? "regionSome" : "regionNone"));
}

// The frame of each region, with its name and answer on a button that removes it.
const frames = new Map();

export function showRegions(regions, { deviceCamera }, size, view) {
  removeOthers(frames, regions.map(({ name }) => name));
  for (const { name, box } of regions) {
    const node = frameOf(name), shown = deviceCamera?.regions?.find((region) => region.name === name);
    const answer = shown && answerOf(shown);
    node.firstChild.textContent = answer ? `${isolate(name)}: ${readable(answer)}` : name;
    node.firstChild.title = message("regionRemove", { label: name });
    const place = placeInView(box, size, view);
    setPlace(node, place);
    Object.entries(nameSides(place, view)).forEach(([side, is]) => node.classList.toggle(side, is));
  }
}

function answerOf(shown) {
  if (shown.problem) return refusalText({ code: "region_too_small", error: shown.problem });
  if (shown.empty) return message("empty");
  return shown.label ? thingName(shown) ?? message("unknown") : "";
}

function frameOf(name) {
  if (!frames.has(name)) {
    const button = element("button", { type: "button", on: () => remove(name).catch(() => {}) });
    frames.set(name, element("div", { className: "region" }, button));
    $("regions").append(frames.get(name));
  }
  return frames.get(name);
}

