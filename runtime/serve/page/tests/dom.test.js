// Lists that are drawn anew while somebody is at them.
import assert from "node:assert/strict";
import test from "node:test";

import { redraw, setTextOf } from "../dom.js";

// A box of controls, and a document in which one of them can have the focus.
function fakeBox() {
  const box = { children: [] };
  Object.assign(box, {
    contains: (node) => box.children.includes(node),
    querySelectorAll: () => box.children,
    replaceChildren: (...nodes) => {
      if (box.contains(document.activeElement)) document.activeElement = document.body;
      box.children = nodes;
    },
  });
  return box;
}

const control = (value, textContent) => {
  const node = { value, textContent, focus: () => { document.activeElement = node; } };
  return node;
};
const focused = () => document.activeElement;

test("the focus stays on the same control when its list is drawn anew", () => {
  globalThis.document = { body: {} };
  const box = fakeBox(), entries = (...ids) => ids.map((id) => control(id, "Back to here"));
  redraw(box, entries("1", "2", "3"));
  box.children[1].focus();
  redraw(box, entries("4", "3", "2", "1"));
  assert.equal(focused(), box.children[2], "though others came before it");
  redraw(box, entries("4", "3"));
  assert.equal(focused(), box.children[1], "and goes to what is in its place where it is gone");
  redraw(box, []);
  assert.equal(focused(), document.body);
  redraw(box, [control(undefined, "Learned “mug”.")]);
  box.children[0].focus();
  redraw(box, [control(undefined, "Learned “mug”.")]);
  assert.equal(focused(), box.children[0]);
});

test("the focus is left alone where it is elsewhere", () => {
  const elsewhere = {};
  globalThis.document = { body: {}, activeElement: elsewhere };
  redraw(fakeBox(), [control("1", "Back to here")]);
  assert.equal(focused(), elsewhere);
});

test("what is pressed keeps its text while that stays the same", () => {
  let text = "mug", count = 0;
  const node = { get textContent() { return text; }, set textContent(value) { text = value; count += 1; } };
  setTextOf(node, "mug");
  assert.deepEqual([text, count], ["mug", 0]);
  setTextOf(node, "cup");
  assert.deepEqual([text, count], ["cup", 1]);
});
