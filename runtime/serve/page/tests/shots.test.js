// The name and the shots that the page shows when one change follows another.
import assert from "node:assert/strict";
import test from "node:test";

import { chooseLabel, startShots } from "../shots.js";
import { store } from "../store.js";

const node = () => ({
  value: "", textContent: "", children: [], classList: { toggle: () => {} },
  append: () => {}, contains: () => false, replaceChildren: () => {}, addEventListener: () => {}, setAttribute: () => {},
  dispatchEvent() { this.oninput(); },
});
const elements = {};
globalThis.document = { getElementById: (id) => (elements[id] ??= node()), querySelectorAll: () => [], createElement: node };
globalThis.window = { addEventListener: () => {} };
globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };

test("the next thing begins with an empty name though another change follows at once", async () => {
  const job = { id: "1-1", change: "learn", label: "mug", state: "queued" };
  let areLearned = false;
  const shots = () => (areLearned ? [] : [{ id: "1" }]);
  globalThis.fetch = async (path) => {
    if (path.endsWith("sufficiency")) throw new TypeError("the service is busy");
    const json = async () => (path.endsWith("learn") ? job : { shots: shots(), labels: [] });
    return { ok: true, blob: async () => new Blob([]), json };
  };
  const everythingRead = () => new Promise((done) => setTimeout(done));
  startShots();
  chooseLabel("mug");
  await everythingRead();
  assert.equal(store.state.shots.length, 1);
  elements.learn.onclick({ detail: 1 });
  await everythingRead();
  assert.equal(store.state.job, job);
  store.update({ job: { ...job, state: "done" } });
  store.update({ job: { ...job, id: "1-2", label: "cup", state: "running" } });
  assert.equal(elements.label.value, "mug", "its shots are still there");
  areLearned = true;
  store.update({ shots: shots() });
  assert.equal(elements.label.value, "");
});

test("only the main button of a mouse takes shots", async () => {
  const asked = [];
  globalThis.fetch = async (path, { method }) => {
    asked.push(`${method} ${path}`);
    return { ok: true, json: async () => ({ accepted: true, id: "1", warnings: [], shots: [], labels: [] }) };
  };
  elements.shoot.disabled = false;
  store.update({ label: "mug", files: [new Blob(["picture"])] });
  const press = async (button) => {
    elements.shoot.onpointerdown({ button });
    await new Promise((done) => setTimeout(done));
    return asked.filter((one) => one === "POST api/v1/shots/mug").length;
  };
  assert.deepEqual([await press(2), await press(0)], [0, 1]);
});

test("a shot without an answer is given up, and others can be taken", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  // Node's own timer of a signal is not mocked.
  context.mock.method(AbortSignal, "timeout", (limit) => {
    const limited = new AbortController();
    setTimeout(() => limited.abort(), limit);
    return limited.signal;
  });
  let asked = 0;
  globalThis.fetch = (path, { method, signal }) => {
    if (method !== "POST") return Promise.resolve({ ok: true, json: async () => ({ shots: [], labels: [] }) });
    asked++;
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  elements.shoot.disabled = false;
  store.update({ label: "mug", files: [new Blob(["picture"])] });
  const settle = async () => { for (let turn = 0; turn < 20; turn++) await Promise.resolve(); };
  elements.shoot.onpointerdown({ button: 0 });
  await settle();
  assert.deepEqual([asked, elements.shoot.disabled], [1, true]);
  context.mock.timers.tick(59_000);
  await settle();
  assert.equal(elements.shoot.disabled, true);
  context.mock.timers.tick(2_000);
  await settle();
  assert.equal(elements.shoot.disabled, false);
});
