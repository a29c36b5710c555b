// What the page shows, derived from its state.
import assert from "node:assert/strict";
import test from "node:test";

import { classesNamed, knownLabelFor, labelOf } from "../labels.js";
import { readable } from "../language.js";
import { canLearn, canShoot, classOf, hasSource, hints, historyLines, isBaseLabel, isOfLabel, isReplaced, isSameOrLater, isUnfinished, shownJob, stay } from "../selectors.js";
import { store } from "../store.js";

const state = (changes) => ({ ...store.state, ...changes });
const shots = (count) => Array.from({ length: count }, (_, index) => ({ id: `1-${index}` }));
const keys = (changes) => hints(state(changes)).map(({ key }) => key);

test("a label has no spaces around it and is no part of a path", () => {
  assert.deepEqual(["  mug ", ".", " .. ", "...", "a b"].map(labelOf), ["mug", "", "", "...", "a b"]);
});

test("a label has nothing in it that nobody sees, as keyboards put beside emoji", () => {
  assert.deepEqual(["❤\ufe0f", "a\u200db\u200d", "a\u00a0b", "\u200b"].map(labelOf), ["❤", "ab", "a b", ""]);
  const joined = ["\u{1f468}\u200d\u{1f469}", "\u0645\u06cc\u200c\u062e"];
  assert.deepEqual(joined.map(labelOf), joined, "spelling needs these");
  assert.equal(labelOf(readable("\u05db\u05d5\u05e1")), "\u05db\u05d5\u05e1", "a name that was copied from the page");
});

test("a name that differs from a known one in capitals or underscores alone stands for it", () => {
  const classes = [{ label: "Cup", learned: false }, { label: "car_side", learned: false }, { label: "toy cow", learned: true }];
  const name = (typed) => knownLabelFor(typed, state({ classes, waiting: [{ label: "Box" }] }));
  assert.deepEqual(["Toy Cow ", "cup", "BOX", "toy cat", "car side"].map(name), ["toy cow", "Cup", "Box", "toy cat", "car_side"]);
  const held = state({ label: "bridge", shots: shots(3) });
  assert.equal(knownLabelFor("Bridge ", held), "bridge", "the shots of the chosen label wait, too");
  assert.equal(knownLabelFor("Bridge", state({ label: "bridge" })), "Bridge", "of it, there are no shots");
  assert.equal(knownLabelFor("cup", state({ classes: [...classes, { label: "cup", learned: true }] })), "cup", "both are known");
});

test("classes are found by a part of their names, whatever its capitals and spaces", () => {
  const classes = ["coffee_mug", "Tea Cup", "قارورة زرقاء"].map((label) => ({ label }));
  const found = (typed) => classesNamed(typed, classes).map(({ label }) => label);
  assert.deepEqual(found("E "), ["coffee_mug", "Tea Cup"]);
  assert.deepEqual(found("MUG"), ["coffee_mug"]);
  assert.deepEqual(found("ee mu"), ["coffee_mug"]);
  assert.deepEqual(found("\u2068زرقاء\u2069"), ["قارورة زرقاء"]);
  assert.deepEqual(found(" "), classes.map(({ label }) => label));
  assert.deepEqual(found("box"), []);
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
  assert.deepEqual(keys({ label: "mug", shots: shots(5), hasVerdict: true }), [], "the verdict says it");
  const classes = [{ label: "mug", learned: true }, { label: "cup", learned: false }];
  assert.deepEqual(keys({ label: "mug", classes }), ["hintSource", "hintLearned"]);
  assert.deepEqual(keys({ label: "cup", classes, shots: shots(1) }), ["hintMore", "hintBase"]);
});

test("a change that waits or is made is shown until it ends, then the next one", () => {
  const [own, other] = ["1-2", "1-3"].map((id) => ({ id, state: "running" })), ended = { ...own, state: "done" };
  assert.equal(shownJob(null, own), own);
  assert.equal(shownJob(own, other), own);
  assert.equal(shownJob(own, ended), ended);
  assert.equal(shownJob(ended, other), other);
});

test("jobs of one run of the service follow one another", () => {
  assert.deepEqual([null, { state: "queued" }, { state: "running" }, { state: "done" }].map(isUnfinished), [false, true, true, false]);
  assert.equal(isSameOrLater({ id: "a-10" }, "a-9"), true);
  assert.equal(isSameOrLater({ id: "a-9" }, "a-9"), true);
  assert.equal(isSameOrLater({ id: "a-8" }, "a-9"), false);
  assert.equal(isSameOrLater({ id: "b-10" }, "a-9"), false);
});

test("nothing is taken or learned while the service is away, and that is said", () => {
  const ready = { label: "mug", stream: {}, shots: shots(5) };
  for (const [connected, expected] of [[null, true], [true, true], [false, false]]) {
    assert.equal(canShoot(state({ ...ready, connected })), expected, String(connected));
    assert.equal(canLearn(state({ ...ready, connected })), expected, String(connected));
  }
  assert.deepEqual(keys({ ...ready, connected: false }), ["hintOffline"]);
});

test("a report belongs to the label that it is about", () => {
  const job = { label: "caf\u00e9", change: "learn", state: "done" };
  assert.deepEqual([[job, ""], [job, "cafe\u0301"], [job, "mug"], [null, ""]].map((one) => isOfLabel(...one)), [true, true, false, false]);
  assert.equal(isOfLabel({ label: null, change: "undo" }, "mug"), true);
  assert.deepEqual(hints(state({ job }))[0], { key: "hintLearnedNow", values: { count: 0, label: "caf\u00e9" } });
});

test("a learned class stands for the base class that it replaces", () => {
  const base = { label: "cup", learned: false }, own = { label: "cup", learned: true };
  assert.equal(isBaseLabel({ label: "cup", classes: [base] }), true);
  assert.equal(isBaseLabel({ label: "cup", classes: [base, own] }), false);
  assert.equal(isBaseLabel({ label: "jug", classes: [base] }), false);
  assert.equal(classOf("cup", [base, own]), own);
});

test("how long a thing stayed is said in one unit", () => {
  const said = [null, 0, 59, 60, 3599, 3600, 90000].map(stay).map(({ key, count }) => [key, count]);
  assert.deepEqual(said, [["stillThere", undefined], ["staySeconds", 0], ["staySeconds", 59], ["stayMinutes", 1],
    ["stayMinutes", 60], ["stayHours", 1], ["stayHours", 25]]);
});

test("what is taught under a base class's label replaces it, unless all classes are answered", () => {
  assert.deepEqual(["auto", "learned", "all"].map((answers) => isReplaced({ status: { answers } })), [true, true, false]);
  assert.equal(isReplaced({ status: null }), true);
});

test("a change and its undo are one line of the history", () => {
  const entry = (number, change, to = null) => ({ entry: number, change, to });
  const lines = (present, earlier, ...history) => historyLines({ history, present, earlier })
    .map((line) => `${line.entry}${line.isPresent ? " now" : ""}${line.isUndone ? " undone" : ""}${line.isStep ? "" : " no step"}`);
  const past = [entry(0, "start"), entry(1, "learn"), entry(2, "rename")];
  assert.deepEqual(lines(2, [1, 0], ...past), ["0", "1", "2 now"]);
  assert.deepEqual(lines(1, [0], ...past, entry(3, "undo", 1)), ["0", "1 now", "2 undone"]);
  assert.deepEqual(lines(2, [1, 0], ...past, entry(3, "undo", 1), entry(4, "undo", 2)), ["0", "1", "2 now"], "redone");
  assert.deepEqual(lines(4, [1, 0], ...past, entry(3, "undo", 1), entry(4, "forget")), ["0", "1", "2 undone", "4 now"]);
  assert.deepEqual(lines(2, [1, 0], ...past, entry(3, "purge")), ["0", "1", "2 now", "3 no step"]);
  assert.deepEqual(lines(4, [3], entry(3, "purge"), entry(4, "learn")), ["3", "4 now"], "nothing is remembered before it");
  // Where it went back to is not remembered any more.
  assert.deepEqual(lines(3, [], past[2], entry(3, "undo", 0)), ["2 undone", "3 now"]);
});
