// Nothing is kept of a browser's camera before somebody has said so.
import assert from "node:assert/strict";
import test from "node:test";

import { isGiven } from "../consent.js";

test("consent is given only where it was given", () => {
  const given = (stored) => {
    globalThis.localStorage = { getItem: () => stored };
    return isGiven();
  };
  assert.deepEqual([null, "no", "", "yes"].map(given), [false, false, false, true]);
});
