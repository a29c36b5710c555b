// Who hears of which change of the page's state.
import assert from "node:assert/strict";
import test from "node:test";

import { createStore } from "../store.js";

test("listeners hear of changed fields alone, once, with the whole state", () => {
  const store = createStore({ label: "", shots: [], job: null });
  const heard = [];
  store.subscribe(["label", "shots"], ({ label, shots }) => heard.push([label, shots.length]));
  store.update({ label: "mug", shots: [1, 2] });
  store.update({ label: "mug" });
  store.update({ job: { id: "1-1" } });
  assert.deepEqual(heard, [["mug", 2]]);
  assert.equal(store.state.job.id, "1-1");
});

test("a listener that changes the state leaves the newest to those behind it", () => {
  const store = createStore({ source: "files", answer: "mug" });
  const heard = [];
  store.subscribe(["source"], () => store.update({ answer: null }));
  store.subscribe(["source", "answer"], ({ source, answer }) => heard.push([source, answer]));
  store.update({ source: "camera" });
  assert.deepEqual(heard, [["camera", null], ["camera", null]]);
});

test("fields have their names, and nobody changes the state but by update", () => {
  const store = createStore({ label: "" });
  assert.throws(() => store.update({ lable: "mug" }), /no field lable/);
  assert.throws(() => store.subscribe(["lable"], () => {}), /no field lable/);
  assert.throws(() => { store.state.label = "mug"; }, TypeError);
  assert.equal(store.state.label, "");
});
