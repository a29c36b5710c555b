// Nothing is kept of a browser's camera before somebody has said so.
import assert from "node:assert/strict";
import test from "node:test";

import { startConsent, storedDecision } from "../consent.js";
import { store } from "../store.js";

test("consent is given only where it was given", () => {
  const decided = (stored) => {
    globalThis.localStorage = { getItem: () => stored };
    return storedDecision();
  };
  assert.deepEqual([null, "no", "", "yes"].map(decided), [null, false, null, true]);
});

test("what is decided in another tab counts in this one, too", () => {
  const elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= {}) };
  let tell, stored = "yes";
  globalThis.addEventListener = (name, listener) => { if (name === "storage") tell = listener; };
  globalThis.localStorage = { getItem: () => stored };
  startConsent();
  assert.deepEqual([store.state.collects, elements.collect.checked], [true, true]);
  stored = "no";
  tell();
  assert.deepEqual([store.state.collects, elements.collect.checked], [false, false]);
});
