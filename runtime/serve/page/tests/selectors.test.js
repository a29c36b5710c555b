import assert from "node:assert/strict";
import test from "node:test";

import { canLearn, canShoot, hasSource, hints, isSameOrLater, isUnfinished, labelOf } from "../selectors.js";
import { store } from "../store.js";

const state = (changes) => ({ ...store.state, ...changes });
const shots = (count) => Array.from({ length: count }, (_, index) => ({ id: `1-${index}` }));
const keys = (changes) => hints(state(changes)).map(({ key }) => key);

test("a label has no spaces around it and is no part of a path", () => {
  assert.deepEqual(["  mug ", ".", " .. ", "...", "a b"].map(labelOf), ["mug", "", "", "...", "a b"]);
});

test("shots need a label and a source", () => {
  assert.equal(hasSource(state({})), false);
  for (const source of [{ stream: {} }, { files: [{}] }, { deviceChosen: true }]) {
    assert.equal(hasSource(state(source)), true);
    assert.equal(canShoot(state(source)), false);
    assert.equal(canShoot(state({ ...source, label: "mug" })), true);
  }
});

test("a class is learned once at a time, whatever form its label is typed in", () => {
  const ready = { label: "cafe\u0301", shots: shots(1) };
  assert.equal(canLearn(state({ label: "mug" })), false);
  assert.equal(canLearn(state(ready)), true);
  for (const [job, expected] of [["queued", false], ["running", false], ["done", true], ["failed", true]]) {
    assert.equal(canLearn(state({ ...ready, job: { state: job, label: "caf\u00e9" } })), expected, job);
    assert.equal(canLearn(state({ ...ready, job: { state: job, label: "cup" } })), true);
  }
});

test("hints lead from a label over shots to learning", () => {
  assert.deepEqual(keys({}), ["hintLabel"]);
  assert.deepEqual(keys({ label: "mug" }), ["hintSource"]);
  assert.deepEqual(keys({ label: "mug", stream: {} }), ["hintFirst"]);
  assert.deepEqual(keys({ label: "mug", shots: shots(4) }), ["hintMore"]);
  assert.deepEqual(keys({ label: "mug", shots: shots(5) }), ["hintEnough"]);
  const classes = [{ label: "mug", learned: true }, { label: "cup", learned: false }];
  assert.deepEqual(keys({ label: "mug", classes }), ["hintSource", "hintLearned"]);
  assert.deepEqual(keys({ label: "cup", classes, shots: shots(1) }), ["hintMore", "hintBase"]);
});

test("jobs of one run of the service follow one another", () => {
  assert.deepEqual([null, { state: "queued" }, { state: "running" }, { state: "done" }].map(isUnfinished), [false, true, true, false]);
  assert.equal(isSameOrLater({ id: "a-10" }, "a-9"), true);
  assert.equal(isSameOrLater({ id: "a-9" }, "a-9"), true);
  assert.equal(isSameOrLater({ id: "a-8" }, "a-9"), false);
  assert.equal(isSameOrLater({ id: "b-10" }, "a-9"), false);
});
