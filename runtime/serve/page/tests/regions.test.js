// Regions that are drawn, by pointer or by keys, and named.
import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { showError, shownError } from "../dom.js";
import { message } from "../language.js";
import { startRegions } from "../regions.js";
import { startScene } from "../scene.js";
import { store } from "../store.js";

// A page whose elements are made as they are looked up. All register in `listeners`; the last one for an event counts.
const elements = {}, listeners = {}, nothing = () => {};
const addEventListener = (name, listener) => { listeners[name] = listener; };
const element = () => ({
  textContent: "", style: {}, classList: { toggle: nothing }, removeAttribute: nothing, remove: nothing, addEventListener,
  setAttribute(name, value) { this[name] = value; },
  focus() { document.activeElement = this; },
  append(...nodes) { [this.firstChild] = nodes; },
  replaceChildren: nothing, setPointerCapture: nothing, showModal() { this.open = true; },
  close() { this.onclose(); }, getBoundingClientRect: () => ({ left: 0, top: 0 }),
});
const $ = (id) => (elements[id] ??= element());
Object.assign(globalThis, { document: { getElementById: $, createElement: element }, addEventListener, window: { addEventListener } });
globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
// In the page's order, in which they hear of changes.
startScene();
startRegions();
const drawn = $("regions").firstChild;

beforeEach(() => {
  globalThis.fetch = async (path, { body }) => ({ ok: true, json: async () => JSON.parse(body) });
  // The view is as large as the picture.
  Object.assign($("view"), { clientWidth: 400, clientHeight: 300 });
  Object.assign($("live"), { naturalWidth: 400, naturalHeight: 300 });
  $("dialog").open = false;
  listeners.keydown({ key: "Escape" });
  store.update({ deviceCamera: { regions: [] }, deviceChosen: true, regions: [] });
});

const done = () => new Promise((resolve) => setTimeout(resolve, 5));

const begin = (detail) => $("region-draw").onclick({ detail });
const isDrawing = () => $("region-draw")["aria-pressed"] === "true";
const said = () => $("region-state").textContent;

// Presses a key on the button; whether the page took it from the browser.
function press(key, held = {}) {
  let isTaken = false;
  $("region-draw").onkeydown({ key, ...held, preventDefault: () => { isTaken = true; } });
  return isTaken;
}

// Where the drawn rectangle is, in pixels; null while it is hidden.
function place() {
  const { left, top, width, height } = drawn.style;
  return drawn.hidden ? null : [left, top, width, height].map((length) => Math.round(parseFloat(length)));
}

async function name(region) {
  await done();
  $("dialog-value").value = region;
  $("dialog-yes").onclick();
  await done();
}

const BY_KEY = 0, BY_POINTER = 1;

test("a region that is added takes the error of an earlier one away", async () => {
  showError("There is a region of that name already: choose another one.");
  begin(BY_POINTER);
  listeners.pointerdown({ pointerId: 1, isPrimary: true, clientX: 0, clientY: 0, preventDefault: () => {} });
  listeners.pointerup({ pointerId: 1, isPrimary: true, clientX: 200, clientY: 150 });
  await name("shelf");
  assert.deepEqual(store.state.regions, [{ name: "shelf", box: [0, 0, 0.5, 0.5] }]);
  assert.equal(shownError(), "");
});

test("a second finger and other buttons of a mouse draw nothing", async () => {
  begin(BY_POINTER);
  const other = { pointerId: 2, isPrimary: false, preventDefault: () => {} };
  for (const press of [other, { ...other, isPrimary: true, button: 2 }]) {
    listeners.pointerdown({ ...press, clientX: 0, clientY: 0 });
    listeners.pointerup({ pointerId: 1, isPrimary: true, clientX: 200, clientY: 150 });
    await done();
    assert.deepEqual([isDrawing(), $("dialog").open], [true, false]);
  }
  listeners.pointerdown({ pointerId: 1, isPrimary: true, clientX: 0, clientY: 0, preventDefault: () => {} });
  listeners.pointermove({ pointerId: 1, isPrimary: true, clientX: 100, clientY: 150 });
  listeners.pointermove({ ...other, clientX: 400, clientY: 300 });
  listeners.pointerup({ ...other, clientX: 400, clientY: 300 });
  assert.deepEqual([isDrawing(), place()], [true, [0, 0, 100, 150]]);
});

test("a region is begun, moved, resized and taken by keys", async () => {
  begin(BY_KEY);
  assert.deepEqual([place(), said()], [[100, 75, 200, 150], message("regionKeys")]);
  // The key that began it is still held.
  assert.equal(press("Enter", { repeat: true }), true);
  await done();
  assert.deepEqual([isDrawing(), $("dialog").open], [true, false]);
  assert.deepEqual([press("ArrowRight"), place()], [true, [120, 75, 200, 150]]);
  assert.deepEqual([press("ArrowDown"), place()], [true, [120, 90, 200, 150]]);
  assert.deepEqual([press("ArrowLeft", { shiftKey: true }), place()], [true, [120, 90, 180, 150]]);
  assert.deepEqual([press("ArrowUp", { shiftKey: true }), place()], [true, [120, 90, 180, 135]]);
  assert.equal(press("Enter"), true, "it would press the button once more");
  await done();
  assert.deepEqual([isDrawing(), place(), $("dialog").open], [false, null, true]);
  $("dialog-value").value = "shelf";
  $("dialog-yes").onclick();
  await done();
  assert.deepEqual(store.state.regions, [{ name: "shelf", box: [0.3, 0.3, 0.45, 0.45] }]);
});

test("keys that draw nothing are left to the browser", () => {
  assert.deepEqual([press("ArrowLeft"), press("Enter")], [false, false], "nothing is drawn yet");
  begin(BY_KEY);
  for (const held of ["altKey", "ctrlKey", "metaKey"]) {
    assert.deepEqual([press("ArrowLeft", { [held]: true }), press("Enter", { [held]: true })], [false, false], held);
  }
  assert.deepEqual([press("Tab"), place()], [false, [100, 75, 200, 150]]);
  begin(BY_KEY);
  assert.deepEqual([press("ArrowLeft"), place()], [false, null], "the button's second press ends it");
  begin(BY_POINTER);
  assert.deepEqual([press("ArrowLeft"), place(), said()], [false, null, message("regionDrag")]);
  begin(BY_POINTER);
  $("live").naturalWidth = 0;
  begin(BY_KEY);
  assert.deepEqual([press("ArrowLeft"), place(), said()], [false, null, message("regionDrag")], "there is no picture yet");
});

test("a region is drawn over frame after frame, which have no size while they load", async () => {
  store.update({ devicePicture: "blob:1" });
  begin(BY_POINTER);
  $("live").naturalWidth = $("live").naturalHeight = 0;
  listeners.pointerdown({ pointerId: 1, isPrimary: true, clientX: 0, clientY: 0, preventDefault: () => {} });
  listeners.pointermove({ pointerId: 1, isPrimary: true, clientX: 100, clientY: 150 });
  assert.deepEqual(place(), [0, 0, 100, 150]);
  listeners.pointerup({ pointerId: 1, isPrimary: true, clientX: 200, clientY: 150 });
  await name("shelf");
  assert.deepEqual(store.state.regions, [{ name: "shelf", box: [0, 0, 0.5, 0.5] }]);
  store.update({ devicePicture: null });
});

test("nothing is drawn over a picture that has gone", () => {
  store.update({ devicePicture: "blob:1" });
  assert.equal($("square").hidden, false);
  $("live").naturalWidth = $("live").naturalHeight = 0;
  store.update({ devicePicture: null });
  assert.deepEqual([$("square").hidden, $("dim").hidden], [true, true]);
});

test("a drag ends the drawing by keys", async () => {
  begin(BY_KEY);
  listeners.pointerdown({ pointerId: 1, isPrimary: true, clientX: 0, clientY: 0, preventDefault: () => {} });
  assert.equal(said(), message("regionDrag"));
  listeners.pointermove({ pointerId: 1, isPrimary: true, clientX: 100, clientY: 150 });
  assert.deepEqual([press("ArrowRight"), press("Enter"), place()], [false, false, [0, 0, 100, 150]]);
  // The next frame of the camera draws all regions anew.
  listeners.load();
  assert.deepEqual(place(), [0, 0, 100, 150]);
  listeners.pointerup({ pointerId: 1, isPrimary: true, clientX: 200, clientY: 150 });
  await name("shelf");
  assert.deepEqual(store.state.regions, [{ name: "shelf", box: [0, 0, 0.5, 0.5] }]);
});

test("a rectangle drawn by keys stays on its part of the picture when the view changes its size", () => {
  begin(BY_KEY);
  Object.assign($("view"), { clientWidth: 800, clientHeight: 600 });
  listeners.resize();
  assert.deepEqual(place(), [200, 150, 400, 300]);
  listeners.keydown({ key: "Escape" });
  assert.deepEqual([place(), isDrawing()], [null, false]);
});

test("whoever removes a region by keys goes on where regions are drawn", async () => {
  store.update({ deviceCamera: { regions: [] }, regions: [{ name: "shelf", box: [0, 0, 0.5, 0.5] }] });
  document.body = document.activeElement = {};
  listeners.click();
  await done();
  $("dialog-yes").onclick();
  await done();
  assert.deepEqual([store.state.regions, document.activeElement === $("region-draw")], [[], true]);
});

test("once the tools are hidden, nothing is drawn any more", () => {
  for (const [how, other] of [["no camera", { deviceCamera: null }], ["another source", { deviceChosen: false }]]) {
    for (const detail of [BY_KEY, BY_POINTER]) {
      begin(detail);
      assert.equal(isDrawing(), true);
      store.update(other);
      assert.deepEqual([$("region-tools").hidden, isDrawing(), place()], [true, false, null], how);
      store.update({ deviceCamera: { regions: [] }, deviceChosen: true });
      assert.deepEqual([$("region-tools").hidden, press("ArrowRight"), place()], [false, false, null], how);
      assert.equal($("region-draw").textContent, message("regionDraw"));
    }
  }
});
