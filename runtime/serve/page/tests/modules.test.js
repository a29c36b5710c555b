// What holds for all scripts and styles of the page.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

const folder = new URL("../", import.meta.url);
const modules = readdirSync(folder).filter((name) => name.endsWith(".js"));
const source = (name) => readFileSync(new URL(name, folder), "utf8");

test("modules do not import one another in a circle", () => {
  const done = new Set();
  const visit = (name, path) => {
    assert.ok(!path.includes(name), `${[...path, name].join(" -> ")}`);
    if (done.has(name)) return;
    for (const [, imported] of source(name).matchAll(/from "\.\/(.+?)"/g)) visit(imported, [...path, name]);
    done.add(name);
  };
  modules.forEach((name) => visit(name, []));
  assert.equal(done.size, modules.length);
});

test("every module says first what it is for", () => {
  modules.forEach((name) => assert.match(source(name), /^\/\/ [A-Z]/, name));
});

test("a button with a card's background has its text colour, too", () => {
  const rules = source("style.css").matchAll(/([^{}]+)\{([^{}]+)\}/g);
  const grounds = [...rules].filter(([, , style]) => style.includes("background: var(--card)"));
  assert.ok(grounds.length > 3);
  for (const [, names, style] of grounds.filter(([, names]) => names.includes("button"))) {
    assert.match(style, /[^-]color: var\(--ink\)/, names);
  }
});

test("a page whose scripts are lost on the way says what to do", () => {
  assert.match(source("index.html"), /<p id="connection" [^>]+>Loading … .*load the page again/);
});

test("a thumb that moves goes on taking shots: the browser takes no scrolling from there", () => {
  assert.match(source("style.css"), /#shoot \{ touch-action: none;/);
});
