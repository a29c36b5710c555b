import assert from "node:assert/strict";
import test from "node:test";

import { filesOf } from "../source.js";

test("of what is dropped or pasted, files are taken, and no folders and texts", () => {
  const file = (name, entry) => ({ kind: "file", webkitGetAsEntry: () => entry, getAsFile: () => name });
  const items = [
    file("1.jpg", { isDirectory: false }), file("holiday", { isDirectory: true }), { kind: "string" }, file("pasted.png", null),
  ];
  assert.deepEqual(filesOf({ items }), ["1.jpg", "pasted.png"]);
});
