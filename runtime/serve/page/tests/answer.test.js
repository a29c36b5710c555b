// How sure an answer is, in words.
import assert from "node:assert/strict";
import test from "node:test";

globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };
const { alternatives, certainty } = await import("../answer.js");

test("an answer is sure, probable, or a guess", () => {
  assert.deepEqual([1, 0.9, 0.89, 0.6, 0.59, 0].map(certainty), ["sure", "sure", "probably", "probably", "perhaps", "perhaps"]);
});

test("a few labels of which one is right are all named, a clear answer is not repeated", () => {
  assert.equal(alternatives(["mug"]), "");
  assert.equal(alternatives(undefined), "");
  const named = alternatives(["mug", "cup"]);
  assert.ok(named.includes("mug") && named.includes("cup") && named.includes(" or "), named);
});
