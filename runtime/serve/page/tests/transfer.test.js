// Files that leave and come: under which name, and why not.
import assert from "node:assert/strict";
import test, { afterEach, beforeEach } from "node:test";

import { message, setLanguage } from "../language.js";
import { problem } from "../problems.js";
import { store } from "../store.js";
import { attachedName, importFile, reasonOf } from "../transfer.js";

let elements = {}, answers = [], sent = [];
const element = () => ({
  textContent: "", hidden: true, value: "", onclick: null, replaceChildren() {}, removeAttribute() {},
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
const known = (label) => ({ status: 409, error: `the label "${label}" exists already: import the class under another one` });

test("a class is sent as it is, with the token", async () => {
  answers = [{ label: "mug" }];
  assert.equal(await importFile(pack()), message("imported", { label: "mug" }));
  const [{ path, method, headers, text }] = sent;
  assert.deepEqual([path, method, text], ["/api/v1/import", "POST", "a pack"]);
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
  for (const error of ['"mug" is being changed already, by job 1-2', "no free target is left: forget a class first"]) {
    answers = [{ status: 409, error }];
    await assert.rejects(importFile(pack()), { message: error, status: 409 });
  }
});

test("what is too large for a class is not sent", async () => {
  store.update({ status: { pack_bytes_most: 1000 } });
  assert.equal(await importFile({ size: 1001 }), message("importTooLarge"));
  assert.equal(sent.length, 0);
});

test("a failure is the service's, the connection's or the page's own", () => {
  setLanguage("de");
  const refused = Object.assign(new Error("there is nothing to undo"), { status: 409 });
  assert.equal(reasonOf(refused), "Es gibt nichts zurückzunehmen.");
  assert.equal(reasonOf(new TypeError("Failed to fetch")), message("notReached"));
  // Whoever is asked for the token and gives none.
  assert.equal(reasonOf(new Error(message("token"))), message("token"));
});

test("a file has the name that the service gives it", () => {
  assert.equal(attachedName('attachment; filename="everyday-2026-11-26.orcobackup"'), "everyday-2026-11-26.orcobackup");
  assert.equal(attachedName("attachment; filename*=UTF-8''mug.orcopack"), undefined);
  assert.equal(attachedName(null), undefined);
});

test("every refusal of a file is German on a German page", () => {
  setLanguage("de");
  const imported = (why) => `the pack cannot be imported: ${why}`;
  for (const [said, expected] of [
    ["nothing was learned, so there is nothing to back up", /nichts zu sichern/],
    ["another file is being written; try again in a moment", /schon eine Datei/],
    ["2 backups are being sent already; try again when one has arrived", /^2 Sicherungen/],
    ["no backup: a change is being made; ask again when it is done", /Gerade wird etwas geändert/],
    ["no backup: another process is changing the state in /var/lib/orco just now; nothing was changed", /Gerade wird/],
    ["no backup: the backup cannot be read or written: No space left on device", /No space left/],
    ['"mug" has a label that no pack may have: rename it first', /„mug“ .* umbenennen/],
    ['the label "mug" exists already: import the class under another one', /„mug“ ist schon bekannt/],
    ["the body is too large: at most 8388608 bytes are taken", /zu groß/],
    [imported("it is not signed, but a public key is configured"), /nur signierte/],
    [imported("it is signed with another key than the configured one"), /anderen Schlüssel/],
    [imported("its signature does not match: it was altered after signing"), /Signatur/],
    [imported("its signature is not one of minisign's"), /beschädigt/],
    [imported("it is not a file of this kind"), /keine Datei/],
    [imported("its checksum does not match: it is cut off or damaged"), /beschädigt/],
    [imported("it has format version 9, but this program reads versions up to 1"), /anderen Version/],
    [imported("it holds 2000 shots, but a class may have at most 1000"), /2000 Aufnahmen/],
    [imported('it was made with another bundle, or another export, called "x"; a class travels only between'), /Bündel/],
  ]) assert.match(problem(said), expected, said);
});
