// Regions of the service's own camera: drawn on its picture, named, removed.
import { ask } from "./dialog.js";
import { $, element, isByKey, isFocusLost, removeOthers, setPlace, setText, setTextOf, showError } from "./dom.js";
import { MIDDLE, nameSides, placeInPicture, placeInView, regionAfter, regionBetween } from "./geometry.js";
import { labelOf } from "./labels.js";
import { isolate, message, readable } from "./language.js";
import { refusalText } from "./refusals.js";
import { thingName } from "./selectors.js";
import { api, call } from "./service.js";
import { pictureSize, viewSize } from "./source.js";
import { store } from "./store.js";

export function startRegions() {
  drawn = element("div", { className: "region", hidden: true });
  $("region-draw").onclick = (event) => {
    const isBegun = !isDrawing;
    stop();
    // Whoever presses keys cannot drag.
    if (isBegun && isByKey(event) && pictureSize(store.state)?.[0]) draw(byKeys = MIDDLE);
    setDrawing(isBegun);
  };
  $("region-draw").onkeydown = press;
  const place = ({ clientX, clientY }) => {
    const { left, top } = $("view").getBoundingClientRect();
    return placeInPicture([clientX - left, clientY - top], pictureSize(store.state), viewSize());
  };
  $("view").addEventListener("pointerdown", (event) => {
    if (!isDrawing || from || event.button || !event.isPrimary || !pictureSize(store.state)?.[0]) return;
    event.preventDefault();
    $("view").setPointerCapture(event.pointerId);
    [pointer, byKeys] = [event.pointerId, null];
    from = place(event);
    showTools(store.state);
  });
  $("view").addEventListener("pointermove", (event) => {
    if (!from || event.pointerId !== pointer) return;
    draw(regionBetween(from, place(event)));
  });
  $("view").addEventListener("pointerup", (event) => {
    if (!from || event.pointerId !== pointer) return;
    const part = regionBetween(from, place(event));
    stop();
    if (part) add(part).catch(() => {});
  });
  $("view").addEventListener("pointercancel", (event) => { if (event.pointerId === pointer) stop(); });
  $("regions").append(drawn);
  addEventListener("keydown", ({ key }) => { if (key === "Escape" && isDrawing) stop(); });
  store.subscribe(["deviceCamera", "deviceChosen", "regions", "language"], showTools);
  showTools(store.state);
}

// `byKeys` is the part that keys draw.
let isDrawing = false, from = null, byKeys = null;
// What draws: a finger, a pen, or a mouse.
let pointer = null;
// The rectangle that is being drawn.
let drawn = null;

function draw(part) {
  drawn.hidden = !part;
  if (part) setPlace(drawn, placeInView(part, pictureSize(store.state), viewSize()));
}

function press(event) {
  if (!byKeys || event.altKey || event.ctrlKey || event.metaKey) return;
  const part = byKeys, moved = regionAfter(event.key, part, event.shiftKey);
  if (!moved && event.key !== "Enter") return;
  event.preventDefault();
  if (moved) return draw(byKeys = moved);
  // The key that began it is still held.
  if (event.repeat) return;
  stop();
  add(part).catch(() => {});
}

function setDrawing(is) {
  isDrawing = is;
  $("region-draw").setAttribute("aria-pressed", String(is));
  $("view").classList.toggle("drawing", is);
  showTools(store.state);
}

function stop() {
  from = byKeys = null;
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
    // The button that asked is gone, and the focus with it.
    if (isFocusLost()) $("region-draw").focus({ preventScroll: true });
  }
}

async function set(regions) {
  showError();
  const answer = await (await call("POST", api("regions"), { regions })).json();
  store.update({ regions: answer.regions });
}

function showTools({ deviceCamera, deviceChosen, regions }) {
  const isThere = deviceChosen && deviceCamera;
  $("region-tools").hidden = !isThere;
  if (!isThere && isDrawing) return stop();
  setText("region-draw", message(isDrawing ? "cancel" : "regionDraw"));
  setText("region-state", message(byKeys ? "regionKeys" : isDrawing ? "regionDrag" : regions.length ? "regionSome" : "regionNone"));
}

// The frame of each region, with its name and answer on a button that removes it.
const frames = new Map();

export function showRegions(regions, { deviceCamera }, size, view) {
  removeOthers(frames, regions.map(({ name }) => name));
  // Once the camera is not shown any more, there may be no picture.
  if (byKeys && size?.[0]) draw(byKeys);
  for (const { name, box } of regions) {
    const node = frameOf(name), shown = deviceCamera?.regions?.find((region) => region.name === name);
    const answer = shown && answerOf(shown);
    setTextOf(node.firstChild, answer ? `${isolate(name)}: ${readable(answer)}` : name);
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

