// Pictures that wait for a label: how they are grouped, named and reported.
import assert from "node:assert/strict";
import test from "node:test";

import { assignLabels, moreSentence, takenSentence } from "../inbox.js";

const group = (...ids) => ({ frames: ids.map((id) => ({ id })) });

test("a typed label follows most of its pictures, and goes with the last of them", () => {
  const typed = [{ ids: ["a", "b", "c"], label: "duck" }, { ids: ["x"], label: "cone" }];
  const kept = assignLabels([group("a"), group("b", "c", "d")], typed);
  assert.equal(kept.labels[0], undefined);
  assert.equal(kept.labels[1], "duck");
  assert.deepEqual(kept.typed, [typed[0]]);
});

test("a label that was deleted is not kept", () => {
  assert.deepEqual(assignLabels([group("a")], [{ ids: ["a"], label: "" }]), { labels: [""], typed: [] });
  assert.deepEqual(assignLabels([], [{ ids: ["a"], label: "duck" }]), { labels: [], typed: [] });
});

test("three groups are shown, and how many pictures wait behind them is said", () => {
  const groups = [group("a"), group("b", "c"), group("d")];
  assert.equal(moreSentence(groups), "");
  assert.match(moreSentence([...groups, group("e")]), /^One more waits/);
  assert.match(moreSentence([...groups, group("e"), group("f", "g")]), /^3 more wait/);
});

test("one picture that became a shot is told as one", () => {
  assert.equal(takenSentence({ taken: 1, label: "mug" }), "One is a shot of “mug” now.");
  assert.equal(takenSentence({ taken: 4, label: "mug" }), "4 are shots of “mug” now.");
});
