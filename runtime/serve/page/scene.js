// The empty place in front of the service's own camera, and the boxes of the things in it.
import { $, element, removeOthers, setPlace, setText, setTextOf, showError } from "./dom.js";
import { disjoint, hasNameRoom, middleOf, placeInView } from "./geometry.js";
import { message, readable } from "./language.js";
import { showRegions } from "./regions.js";
import { analysedParts, thingName } from "./selectors.js";
import { api, call } from "./service.js";
import { pictureSize, viewSize } from "./source.js";
import { store } from "./store.js";

export function startScene() {
  for (const id of ["scene-learn", "first-scene"]) $(id).onclick = () => request("POST", {});
  $("scene-forget").onclick = () => request("DELETE");
  for (const [id, name] of [["video", "resize"], ["still", "load"], ["still", "error"], ["live", "load"]]) {
    $(id).addEventListener(name, () => showPlaces(store.state));
  }
  window.addEventListener("resize", () => showPlaces(store.state));
  store.subscribe(["deviceCamera", "deviceChosen", "language"], show);
  store.subscribe(["deviceCamera", "deviceChosen", "devicePicture", "regions", "stream", "files", "chosenThing", "language"], showPlaces);
  show(store.state);
}

// The method of the request that runs.
let asked = null;
async function request(method, body) {
  if (asked) return;
  asked = method;
  showError();
  show(store.state);
  await call(method, api("scene"), body).catch(() => {});
  asked = null;
  show(store.state);
}

function show({ deviceCamera: camera, deviceChosen }) {
  const scene = camera?.scene, isLooking = asked === "POST";
  $("scene").hidden = !deviceChosen || !scene;
  $("first-empty").hidden = !deviceChosen || scene?.state !== "none";
  if (!scene) return;
  setText("first-empty-text", message(isLooking ? "sceneLooking" : "firstEmpty"));
  $("scene-forget").hidden = scene.state === "none";
  setText("scene-state", message(sceneText(scene, isLooking)));
}

// What is said of the empty place. While the camera's next frames of it are waited for, it must stay clear.
export const sceneText = ({ state }, isLooking) => (isLooking ? "sceneLooking" : state === "shown" ? "sceneShown" : "sceneNone");

// Draws what is analysed, and the box of each thing, over the picture as it fits into the view; the rest is dimmed.
function showPlaces(state) {
  const size = pictureSize(state), view = viewSize();
  const isSized = Boolean(size?.[0] && view[0]);
  const parts = isSized ? analysedParts(state, size) : [];
  const isSquare = parts.length === 1 && !(state.deviceChosen && state.regions.length);
  $("square").hidden = !isSquare;
  if (isSquare) setPlace($("square"), placeInView(parts[0], size, view));
  $("dim").hidden = !parts.length;
  if (parts.length) $("dim").style.clipPath = holes(parts.map((part) => placeInView(part, size, view)), view);
  showRegions(isSized && state.deviceChosen ? state.regions : [], state, size, view);
  const things = isSized && state.deviceChosen ? state.deviceCamera?.things ?? [] : [];
  removeOthers(boxes, things.map(({ id }) => id));
  for (const thing of things) {
    const name = thingName(thing) ?? message("unknown"), node = boxOf(thing.id);
    setTextOf(node.firstChild, readable(name));
    node.title = message("boxChoose", { label: name });
    node.setAttribute("aria-pressed", String(thing.id === state.chosenThing));
    const place = placeInView(thing.box, size, view);
    setPlace(node, place);
    node.classList.toggle("rightmost", !hasNameRoom(place, view));
  }
}

// All of a view but these rectangles. What two of them cover would be dimmed again.
function holes(rectangles, [width, height]) {
  const path = ([x, y, across, down]) => `M${x} ${y}h${across}v${down}h${-across}z`;
  return `path(evenodd, "${[[0, 0, width, height], ...disjoint(rectangles)].map(path).join("")}")`;
}

// The button of each thing, by its id. A new one with every frame would lose a tap, and the focus.
const boxes = new Map();

function boxOf(id) {
  if (!boxes.has(id)) {
    const toggle = () => store.update({ chosenThing: boxes.get(id)?.getAttribute("aria-pressed") === "true" ? null : id });
    boxes.set(id, element("button", { type: "button", className: "box", on: toggle }, element("span")));
    $("boxes").append(boxes.get(id));
  }
  return boxes.get(id);
}

// Where shots are taken: of the thing that people chose, or else of the one in the middle. Null where the chosen one has
// gone.
export function chosenPlace({ deviceCamera, chosenThing }) {
  if (chosenThing === null) return {};
  const thing = deviceCamera?.things?.find(({ id }) => id === chosenThing);
  return thing ? { at: middleOf(thing.box) } : null;
}
