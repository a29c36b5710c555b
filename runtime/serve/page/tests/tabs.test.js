// Which tab is shown, where keys lead, and what stands on tabs.
import assert from "node:assert/strict";
import test from "node:test";

import { isNewReport } from "../selectors.js";
import { TABS, badges, chooseTab, tabAfter, tabOf, tabsOf } from "../tabs.js";

test("a fragment names a tab, and nothing else does", () => {
  assert.deepEqual(["#review", "#settings", "", "#token=abc", "#nonsense"].map(tabOf),
    ["review", "settings", undefined, undefined, undefined]);
});

test("arrows go around, Home and End to the ends, other keys nowhere", () => {
  const to = (key, from, tabs = TABS) => tabAfter(key, from, tabs);
  assert.equal(to("ArrowRight", "teach"), "review");
  assert.equal(to("ArrowRight", "settings"), "teach");
  assert.equal(to("ArrowLeft", "teach"), "settings");
  assert.equal(to("Home", "history"), "teach");
  assert.equal(to("End", "teach"), "settings");
  assert.equal(to("Enter", "teach"), undefined);
  assert.equal(to("toString", "teach"), undefined);
});

test("where there is room beside it, what is known and what was done need no tab", () => {
  assert.deepEqual(tabsOf(true), ["teach", "review", "settings"]);
  assert.deepEqual(tabsOf(false), TABS);
  assert.equal(tabAfter("ArrowRight", "review", tabsOf(true)), "settings");
});

test("badges count what waits, and tell of a change and of a report that nobody has seen", () => {
  const inbox = { groups: [{ frames: [1, 2] }, { frames: [3] }] };
  const on = (state) => badges({ inbox: null, job: null, tab: "knows", reportSeen: null, ...state });
  assert.deepEqual(on({}), { review: null, teach: null });
  assert.deepEqual(on({ inbox }).review, { text: "3", said: "3 pictures wait for a name." });
  assert.equal(on({ inbox: { groups: [{ frames: Array(120) }] } }).review.text, "99+");
  const job = (state, change = "learn") => ({ id: "1-1", state, change });
  assert.equal(on({ job: job("running") }).teach.said, "a change runs");
  assert.equal(on({ job: job("running"), tab: "teach" }).teach.said, "a change runs");
  assert.equal(on({ job: job("done") }).teach.said, "a new report");
  assert.equal(on({ job: job("done"), tab: "teach" }).teach, null);
  assert.equal(on({ job: job("done"), reportSeen: "1-1" }).teach, null);
});

test("of changes that are made elsewhere, only a failure is news", () => {
  const isNew = (change, state) => isNewReport({ job: { id: "1-1", change, state }, tab: "knows", reportSeen: null });
  assert.deepEqual([isNew("rename", "done"), isNew("rename", "failed"), isNew("learn", "done")], [false, true, true]);
});

test("on a low screen, what a tab shows is brought into view; elsewhere the picture stays", () => {
  let top = 0, shown = 0, position = "static";
  const panel = { getBoundingClientRect: () => ({ top }), scrollIntoView: () => { shown += 1; } };
  const node = (id) => (id.startsWith("panel-") ? panel : {});
  const document = { getElementById: node, querySelector: () => ({}) };
  Object.assign(globalThis, { document, history: { replaceState: () => {} }, scrollTo: () => {}, innerHeight: 256 });
  globalThis.getComputedStyle = () => ({ position });
  const shownAt = (place) => {
    top = place;
    chooseTab("knows");
    return shown;
  };
  assert.deepEqual([100, 286, 100].map(shownAt), [0, 1, 1]);
  position = "sticky";
  assert.equal(shownAt(286), 1);
});
