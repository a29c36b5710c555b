// Regions that are drawn and named.
import assert from "node:assert/strict";
import test from "node:test";

import { showError, shownError } from "../dom.js";
import { startRegions } from "../regions.js";
import { store } from "../store.js";

// Elements that are made as they are looked up, as large as the picture; they call `listeners` by the event's name.
function fakePage() {
  const elements = {}, listeners = {}, nothing = () => {};
  const element = () => ({
    textContent: "", style: {}, classList: { toggle: nothing }, append: nothing, setAttribute: nothing, removeAttribute: nothing,
    replaceChildren: nothing, setPointerCapture: nothing, showModal: nothing, getBoundingClientRect: () => ({ left: 0, top: 0 }),
    addEventListener: (name, listener) => { listeners[name] = listener; },
    clientWidth: 400, clientHeight: 300, naturalWidth: 400, naturalHeight: 300,
  });
  const getElementById = (id) => (elements[id] ??= element());
  globalThis.document = { getElementById, createElement: element };
  globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
  globalThis.addEventListener = nothing;
  getElementById("dialog").close = () => getElementById("dialog").onclose();
  return { $: getElementById, listeners };
}

const done = () => new Promise((resolve) => setTimeout(resolve, 5));

test("a region that is added takes the error of an earlier one away", async () => {
  const { $, listeners } = fakePage();
  store.update({ deviceCamera: { regions: [] }, deviceChosen: true });
  startRegions();
  globalThis.fetch = async (path, { body }) => ({ ok: true, json: async () => JSON.parse(body) });
  showError("There is a region of that name already: choose another one.");
  $("region-draw").onclick({ detail: 1 });
  listeners.pointerdown({ clientX: 0, clientY: 0, preventDefault: () => {} });
  listeners.pointerup({ clientX: 200, clientY: 150 });
  await done();
  $("dialog-value").value = "shelf";
  $("dialog-yes").onclick();
  await done();
  assert.deepEqual(store.state.regions, [{ name: "shelf", box: [0, 0, 0.5, 0.5] }]);
  assert.equal(shownError(), "");
});
