// The balance shows the choice that counts.
import assert from "node:assert/strict";
import test from "node:test";

import { startBalance } from "../balance.js";
import { showError } from "../dom.js";
import { store } from "../store.js";

function node() {
  const children = [], listeners = {};
  return {
    textContent: "", style: {}, children, listeners,
    get firstChild() { return children[0]; },
    get lastChild() { return children.at(-1); },
    append: (...added) => children.push(...added),
    replaceChildren: (...other) => children.splice(0, children.length, ...other),
    addEventListener: (name, listener) => { listeners[name] = listener; },
  };
}

test("where another position is refused, or its change fails, the old one stays chosen", async () => {
  const elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= node()), createElement: node };
  globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
  globalThis.fetch = async () => ({ ok: false, status: 429, json: async () => ({ error: "busy" }) });
  startBalance();
  const balances = ["keep-base", "balanced", "favour-new"];
  store.update({ status: { balance: "balanced", balances }, classes: [{ label: "mug", learned: true }] });
  const radios = elements["balance-choices"].children.map((item) => item.children[0]);
  const chosen = () => radios.filter(({ checked }) => checked).map(({ value }) => value);
  const press = (pressed) => radios.forEach((radio) => { radio.checked = radio === pressed; });
  assert.deepEqual(chosen(), ["balanced"]);

  press(radios[2]);
  radios[2].listeners.change();
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(chosen(), ["balanced"]);
  press(radios[0]);
  store.update({ job: { id: "1-1", change: "balance", state: "failed", error: "the disk is full" } });
  assert.deepEqual(chosen(), ["balanced"]);

  const shown = () => elements.expected.textContent.replaceAll("\u00a0", " ");
  const all = { base: 0.9, learned: 0.4, learned_range: [0.3, 0.5] };
  store.update({ outlook: { expected: all, expected_learned_only: { learned: 0.8, learned_range: [0.7, 0.85] } } });
  assert.match(shown(), /30–\u206050 % right on what it learned, 90 %/);
  const estimates = balances.map((balance, taken) => ({ balance, shots: 5, recognised: 5, base_samples: 20, taken_for_learned: taken }));
  store.update({ balances: estimates });
  const notes = () => elements["balance-choices"].children.filter((item) => item.lastChild.lastChild.textContent);
  assert.equal(notes().length, 3);
  store.update({ status: { balance: "balanced", balances, learned_only: true } });
  assert.match(shown(), /^Makes little difference .* 70–\u206085 % right on what it learned\.$/);
  assert.equal(notes().length, 0, "they are of answers that name all classes");
  showError();
});
