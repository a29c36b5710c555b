// Files that leave and come: under which name, and why not.
import assert from "node:assert/strict";
import test, { afterEach, beforeEach } from "node:test";

import { saveFile } from "../dom.js";
import { message, setLanguage } from "../language.js";
import { store } from "../store.js";
import { attachedName, importFile, reasonOf } from "../transfer.js";

let elements = {}, answers = [], sent = [];
const element = () => ({
  textContent: "", hidden: true, value: "", onclick: null, replaceChildren() {}, removeAttribute() {}, select() {},
  showModal() { elements.dialog.onopen(); }, close() { this.onclose(); },
});
beforeEach(() => {
  [elements, answers, sent] = [{}, [], []];
  globalThis.document = { getElementById: (id) => (elements[id] ??= element()) };
  globalThis.sessionStorage = globalThis.localStorage = { getItem: () => "secret" };
  globalThis.fetch = async (path, { method, headers, body }) => {
    sent.push({ path, method, headers, text: await body.text() });
    const { status = 202, ...said } = answers.shift();
    return { ok: status < 300, status, json: async () => said };
  };
});
afterEach(() => setLanguage("en"));

// Whoever uses the page answers each question with one of these; null is Cancel.
function answerDialogs(...names) {
  document.getElementById("dialog").onopen = () => {
    const name = names.shift();
    if (name === null) return elements["dialog-no"].onclick();
    elements["dialog-value"].value = name;
    elements["dialog-yes"].onclick();
  };
}

const pack = () => new Blob(["a pack"]);
const known = (label) => ({
  status: 409, code: "label_taken", values: { label }, error: `the label "${label}" exists already: import the class under another one`,
});

test("a class is sent as it is, with the token", async () => {
  answers = [{ label: "mug" }];
  assert.equal(await importFile(pack()), message("imported", { label: "mug" }));
  const [{ path, method, headers, text }] = sent;
  assert.deepEqual([path, method, text], ["api/v1/import", "POST", "a pack"]);
  assert.deepEqual(headers, { Authorization: "Bearer secret", "Content-Type": "application/octet-stream" });
});

test("where the name is known, another one is asked for until one is free", async () => {
  answers = [known("mug"), known("cup"), { label: "my mug & cup" }];
  answerDialogs("cup", " my mug & cup ");
  assert.equal(await importFile(pack()), message("imported", { label: "my mug & cup" }));
  assert.deepEqual(sent.map(({ path }) => path.split("?")[1]),
    [undefined, "label=cup", "label=my%20mug%20%26%20cup"]);
});

test("whoever gives no other name imports nothing, and is told nothing", async () => {
  for (const given of [null, "  "]) {
    answers = [known("mug")];
    answerDialogs(given);
    assert.equal(await importFile(pack()), "");
    assert.equal(answers.length, 0);
  }
});

test("other refusals are not asked about", async () => {
  for (const refusal of [
    { error: '"mug" is being changed already, by job 1-2', code: "class_busy", values: { label: "mug", job: "1-2" } },
    { error: "no free target is left: forget a class first", code: "no_free_target", values: { wanted: 1, free: 0 } },
  ]) {
    answers = [{ status: 409, ...refusal }];
    await assert.rejects(importFile(pack()), { message: refusal.error, status: 409, refusal });
  }
});

test("what is too large for a class is not sent", async () => {
  store.update({ status: { pack_bytes_most: 1000 } });
  assert.equal(await importFile({ size: 1001 }), message("importTooLarge"));
  assert.equal(sent.length, 0);
});

test("a failure is the service's, the connection's or the page's own", () => {
  setLanguage("de");
  const refusal = { error: "nothing was learned, so there is nothing to back up", code: "nothing_to_back_up" };
  const refused = Object.assign(new Error(refusal.error), { status: 409, refusal });
  assert.equal(reasonOf(refused), "Noch ist nichts gelernt, also gibt es nichts zu sichern.");
  assert.equal(reasonOf(new TypeError("Failed to fetch")), message("notReached"));
  // Whoever is asked for the token and gives none.
  assert.equal(reasonOf(new Error(message("token"))), message("token"));
});

test("a file that is saved can be read for as long as a browser asks where to put it", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let saved, gone;
  const link = { append() {}, click() { saved = [this.href, this.download]; } };
  globalThis.document = { createElement: () => link };
  t.mock.method(URL, "createObjectURL", () => "blob:1");
  t.mock.method(URL, "revokeObjectURL", (url) => { gone = url; });
  saveFile(new Blob(["a pack"]), "mug.orcopack");
  assert.deepEqual(saved, ["blob:1", "mug.orcopack"]);
  t.mock.timers.tick(39_000);
  assert.equal(gone, undefined);
  t.mock.timers.tick(2_000);
  assert.equal(gone, "blob:1");
});

test("a file has the name that the service gives it", () => {
  assert.equal(attachedName('attachment; filename="everyday-2026-11-26.orcobackup"'), "everyday-2026-11-26.orcobackup");
  assert.equal(attachedName("attachment; filename*=UTF-8''mug.orcopack"), undefined);
  const escaped = "attachment; filename=\"my%20mug.orcopack\"; filename*=UTF-8''my%20mug.orcopack";
  assert.equal(attachedName(escaped), undefined, "the page knows the label as it is written");
  assert.equal(attachedName(null), undefined);
});
