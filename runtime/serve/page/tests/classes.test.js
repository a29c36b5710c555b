// The list of learned classes: searched by name, and drawn anew while somebody is at it.
import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { startClasses } from "../classes.js";
import { message } from "../language.js";
import { store } from "../store.js";

// An element that can have the focus, and loses it with the list that it is in.
function node(tag) {
  const attributes = {}, within = (one) => [one, ...(one.children ?? []).flatMap(within)];
  const self = {
    tag, value: "", textContent: "", children: [],
    append: (...added) => self.children.push(...added),
    contains: (one) => within(self).includes(one),
    querySelectorAll: (wanted) => within(self).filter((one) => one.tag === wanted),
    replaceChildren: (...nodes) => {
      if (self.contains(document.activeElement)) document.activeElement = document.body;
      self.children = nodes;
    },
    addEventListener: () => {},
    setAttribute: (name, value) => { attributes[name] = value; },
    getAttribute: (name) => attributes[name] ?? null,
    focus: () => { document.activeElement = self; },
  };
  return self;
}

const elements = {}, $ = (id) => (elements[id] ??= node());
globalThis.document = { getElementById: $, createElement: node, body: {} };
globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
startClasses();

const numbered = (count) => Array.from({ length: count }, (_, index) => `thing ${index + 1}`);
const know = (labels) => store.update({ status: { free_targets: 9 }, classes: labels.map((label) => ({ label, shots: 5, learned: true })) });
const listed = () => $("learned").children.map((item) => item.children[0].children[0]);
const type = (text) => {
  $("class-search").value = text;
  $("class-search").oninput();
};
const button = (key, label) =>
  $("learned").querySelectorAll("button").find((one) => one.getAttribute("aria-label") === message(key, { label }));
const focused = () => document.activeElement;

beforeEach(() => {
  document.activeElement = document.body;
  know([]);
});

test("from twelve learned classes on, they can be searched by name", () => {
  know(numbered(11));
  assert.equal($("class-search").hidden, true);
  know(numbered(12));
  assert.deepEqual([$("class-search").hidden, listed()], [false, numbered(12)]);
  type("THING 1");
  assert.deepEqual(listed(), ["thing 1", "thing 10", "thing 11", "thing 12"]);
  know([...numbered(12), "thing 13", "mug"]);
  assert.deepEqual(listed(), ["thing 1", "thing 10", "thing 11", "thing 12", "thing 13"], "new ones are searched, too");
});

test("a search that finds nothing says so, no classes at all are no such search", () => {
  know(numbered(12));
  type("mug");
  assert.deepEqual([listed(), $("search-none").textContent], [[], message("searchNone")]);
  type("thing");
  assert.deepEqual([listed(), $("search-none").textContent], [numbered(12), ""]);
  type("mug");
  know([]);
  assert.deepEqual([$("search-none").textContent, $("learned-none").hidden], ["", false]);
});

test("a search that is hidden hides no classes, then or later", () => {
  know(numbered(12));
  type("mug");
  know(numbered(11));
  assert.deepEqual([$("class-search").value, listed(), $("search-none").textContent], ["", numbered(11), ""]);
  know(numbered(12));
  assert.deepEqual([$("class-search").value, listed()], ["", numbered(12)]);
});

test("whoever types a name keeps the focus", () => {
  know(numbered(12));
  $("class-search").focus();
  for (const text of ["thing", "mug", ""]) {
    type(text);
    assert.equal(focused(), $("class-search"), text);
  }
});

test("the focus stays on a class's control when others come before it, and goes to what is in its place", () => {
  know(numbered(12));
  type("thing 1");
  button("forgetOf", "thing 10").focus();
  know(["thing 1b", ...numbered(12)]);
  assert.ok(focused() && focused() === button("forgetOf", "thing 10"));
  know(["thing 1b", ...numbered(12).filter((label) => label !== "thing 10")]);
  assert.equal(focused(), button("forgetOf", "thing 11"));
  know(numbered(24).filter((label) => !label.startsWith("thing 1")));
  assert.equal(focused(), $("panel-knows"), "nothing that is searched is left");
});
