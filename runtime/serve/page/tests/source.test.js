// Where the page's pictures come from: files, the browser's cameras, or none.
import assert from "node:assert/strict";
import test from "node:test";

import { showError, shownError } from "../dom.js";
import { filesOf, frame, isPaused, startSource } from "../source.js";
import { store } from "../store.js";

test("of what is dropped or pasted, files are taken, and no folders and texts", () => {
  const file = (name, entry) => ({ kind: "file", webkitGetAsEntry: () => entry, getAsFile: () => name });
  const items = [
    file("1.jpg", { isDirectory: false }), file("holiday", { isDirectory: true }), { kind: "string" }, file("pasted.png", null),
  ];
  assert.deepEqual(filesOf({ items }), ["1.jpg", "pasted.png"]);
});

// Elements that are made as they are looked up.
function fakePage() {
  const elements = {};
  const element = () => ({ classList: { toggle: () => {} }, removeAttribute: () => {} });
  const find = (key) => (elements[key] ??= element());
  globalThis.document = { getElementById: find, querySelector: find, addEventListener: () => {} };
  return find;
}

test("after files, the camera button leads back to the camera that was shown before them", async () => {
  const $ = fakePage(), chooseFile = () => {
    $("file").files = [new Blob(["picture"])];
    $("file").onchange();
  };
  startSource();
  store.update({ deviceCamera: { state: "running" } });
  assert.equal(store.state.deviceChosen, true);
  chooseFile();
  assert.equal(store.state.deviceChosen, false);
  showError("This is not a picture.");
  await $("camera").onclick();
  assert.equal(shownError(), "", "what was wrong with the file");
  assert.deepEqual([store.state.deviceChosen, store.state.files, $("camera-error").textContent], [true, [], ""]);

  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  $("#sources input[value=browser]").onchange();
  chooseFile();
  await $("camera").onclick();
  assert.equal(store.state.deviceChosen, false);
  assert.match($("camera-error").textContent, /^Browsers give the camera only /);
  chooseFile();
  assert.equal($("camera-error").textContent, "", "what was wrong with the camera");
});

test("of a camera that is held back, no picture is taken, and the page says so until it goes on", async () => {
  const $ = fakePage(), track = Object.assign(new EventTarget(), { muted: false, stop: () => {} });
  const stream = { getTracks: () => [track], getVideoTracks: () => [track] };
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices: { getUserMedia: async () => stream } }, configurable: true });
  Object.assign($("video"), { videoWidth: 640, videoHeight: 480, play: async () => {} });
  startSource();
  store.update({ deviceCamera: null, deviceChosen: false, files: [] });
  await $("camera").onclick();
  assert.equal(store.state.stream, stream);
  store.update({ answer: { matches: [{ label: "mug" }], set: [], known: true, empty: false } });
  track.muted = true;
  track.dispatchEvent(new Event("mute"));
  assert.deepEqual([await frame(480), store.state.answer.matches], [null, []]);
  assert.match($("camera-error").textContent, /held back/);
  track.muted = false;
  track.dispatchEvent(new Event("unmute"));
  assert.deepEqual([isPaused(stream), $("camera-error").textContent], [false, ""]);
  // Held back before it is started; the page's own stop is not told.
  await $("camera").onclick();
  track.muted = true;
  await $("camera").onclick();
  assert.match($("camera-error").textContent, /held back/);
  await $("camera").onclick();
  track.dispatchEvent(new Event("mute"));
  assert.deepEqual([store.state.stream, $("camera-error").textContent], [null, ""]);
});

test("of several cameras, the one that people choose is started, now and the next time", async () => {
  const $ = fakePage(), wanted = [];
  const streamOf = (deviceId) => {
    const track = Object.assign(new EventTarget(), { muted: false, stop: () => {}, getSettings: () => ({ deviceId }) });
    return { getTracks: () => [track], getVideoTracks: () => [track] };
  };
  const cameras = ["front", "back"].map((deviceId) => ({ kind: "videoinput", deviceId, label: `the ${deviceId} one` }));
  const getUserMedia = async ({ video }) => {
    const wish = video.deviceId?.exact;
    wanted.push(wish);
    if (wish && wish === busy) throw new DOMException("held", "NotReadableError");
    if (wish && !cameras.some(({ deviceId }) => deviceId === wish)) throw new DOMException("gone", "OverconstrainedError");
    return streamOf(wish ?? "front");
  };
  const enumerateDevices = async () => [...cameras, { kind: "audioinput", deviceId: "x", label: "a microphone" }];
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices: { getUserMedia, enumerateDevices } }, configurable: true });
  Object.assign($("video"), { play: async () => {} });
  let options = [], busy = null;
  $("camera-choice").replaceChildren = (...nodes) => { options = nodes; };
  globalThis.document.createElement = () => ({ append: () => {} });
  globalThis.localStorage = { getItem: (key) => globalThis.localStorage[key] ?? null, setItem: (key, value) => { globalThis.localStorage[key] = value; } };
  startSource();
  store.update({ stream: null, deviceCamera: null, deviceChosen: false, files: [] });
  const listed = () => new Promise((done) => setTimeout(done));
  await $("camera").onclick();
  await listed();
  assert.equal($("browser-cameras").hidden, false);
  assert.deepEqual(options.map(({ value, textContent, selected }) => [value, textContent, selected]),
    [["front", "1: the front one", true], ["back", "2: the back one", false]]);
  $("camera-choice").value = "back";
  $("camera-choice").onchange();
  await listed();
  await listed();
  assert.deepEqual(options.map(({ selected }) => selected), [false, true]);
  await $("camera").onclick();
  await $("camera").onclick();
  assert.deepEqual(wanted, [undefined, "back", "back"]);
  // Another program holds it: the others can be chosen nevertheless.
  await $("camera").onclick();
  [options, busy] = [[], "back"];
  await $("camera").onclick();
  await listed();
  assert.match($("camera-error").textContent, /another program/);
  assert.deepEqual([$("browser-cameras").hidden, options.map(({ selected }) => selected)], [false, [false, true]]);
  busy = null;
  wanted.pop();
  // It is there no more.
  cameras.pop();
  await globalThis.navigator.mediaDevices.ondevicechange();
  assert.equal($("browser-cameras").hidden, true, "one alone is no choice");
  await $("camera").onclick();
  await listed();
  assert.deepEqual(wanted.slice(3), ["back", undefined]);
  assert.equal($("browser-cameras").hidden, true);
});
