// Nothing is kept of a browser's camera before somebody has said so.
import assert from "node:assert/strict";
import test from "node:test";

import { storedDecision } from "../consent.js";

test("consent is given only where it was given", () => {
  const decided = (stored) => {
    globalThis.localStorage = { getItem: () => stored };
    return storedDecision();
  };
  assert.deepEqual([null, "no", "", "yes"].map(decided), [null, false, null, true]);
});
