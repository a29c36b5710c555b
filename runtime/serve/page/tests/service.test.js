// Failures of requests: each is said where people look.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test, { afterEach, beforeEach, mock } from "node:test";

import { showError } from "../dom.js";
import { message, setLanguage } from "../language.js";
import { problem } from "../problems.js";
import { api, call, takeTokenFromAddress } from "../service.js";

// A browser's storage.
function storage() {
  const held = new Map();
  return {
    getItem: (name) => held.get(name) ?? null,
    setItem: (name, value) => held.set(name, value),
    removeItem: (name) => held.delete(name),
  };
}

let elements = {};
beforeEach(() => {
  elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= { textContent: "", hidden: true }) };
  globalThis.sessionStorage = storage();
  globalThis.localStorage = storage();
});
afterEach(() => { showError(); setLanguage("en"); mock.timers.reset(); });

const shown = () => (elements["error-bar"]?.hidden === false ? elements.error.textContent : "");

test("a service that is not there is said at once, unless the request is quiet", async () => {
  globalThis.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
  await assert.rejects(call("POST", "/api/v1/learn", {}, { quiet: true }));
  assert.equal(shown(), "");
  await assert.rejects(call("POST", "/api/v1/learn", {}));
  assert.equal(shown(), message("notReached"));
});

test("a file that cannot be read any more is not taken for a service that is not there", async () => {
  globalThis.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
  const file = Object.assign(new Blob(["a picture"]), { slice: () => ({ arrayBuffer: () => Promise.reject(new Error("changed")) }) });
  const isRefused = ({ refusal }) => /changed or removed/.test(refusal.error);
  await assert.rejects(call("POST", "/api/v1/shots/mug", file, { name: "mug.jpg" }), isRefused);
  assert.equal(shown(), "mug.jpg: The file was changed or removed after it was chosen: choose it again.");
  setLanguage("de");
  await assert.rejects(call("POST", "/api/v1/shots/mug", file, { name: "mug.jpg" }), isRefused);
  assert.match(shown(), /^mug.jpg: Die Datei wurde nach der Auswahl geändert oder entfernt/);
  await assert.rejects(call("POST", "/api/v1/shots/mug", new Blob(["a picture"])));
  assert.equal(shown(), message("notReached"));
});

test("what kind a file is, the service sees, not the browser", async () => {
  const types = [];
  globalThis.fetch = async (path, { headers }) => { types.push(headers["Content-Type"]); return { ok: true }; };
  for (const type of ["", "image/pjpeg", "image/heic"]) await call("POST", "/api/v1/classify", new Blob(["a picture"], { type }));
  assert.deepEqual(new Set(types), new Set(["application/octet-stream"]));
});

test("that no answer comes is said after two seconds, and taken back when one does", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let answer;
  globalThis.fetch = () => new Promise((resolve) => { answer = resolve; });
  const asked = call("POST", "/api/v1/learn", {});
  mock.timers.tick(1999);
  assert.equal(shown(), "");
  mock.timers.tick(1);
  assert.equal(shown(), message("noAnswerYet"));
  answer({ ok: true, status: 200 });
  await asked;
  assert.equal(shown(), "");
});

test("what another request was answered stays, however late an answer comes", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const answers = [];
  globalThis.fetch = () => new Promise((resolve) => answers.push(resolve));
  const [slow, slower] = [call("POST", "/api/v1/learn", {}), call("POST", "/api/v1/undo", {})];
  mock.timers.tick(2000);
  showError("no room");
  answers[0]({ ok: true, status: 200 });
  await slow;
  assert.equal(shown(), "no room");
  showError(message("noAnswerYet"));
  answers[1]({ ok: true, status: 200 });
  await slower;
  assert.equal(shown(), "");
  const late = call("POST", "/api/v1/learn", {});
  showError("no room");
  mock.timers.tick(2000);
  assert.equal(shown(), "no room");
  answers[2]({ ok: true, status: 200 });
  await late;
  assert.equal(shown(), "no room");
});

test("an error goes by itself once it could be read, and by what is done next", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let isInUse = false;
  const bar = document.getElementById("error-bar");
  bar.matches = (selector) => isInUse && selector.includes(":focus-within");
  showError("gone");
  mock.timers.tick(19_999);
  assert.equal(shown(), "gone");
  mock.timers.tick(1);
  assert.equal(shown(), "");
  // Nobody reads a page that is hidden, and what the focus is in stays.
  for (const set of [(is) => { document.hidden = is; }, (is) => { isInUse = is; }]) {
    showError("still there");
    set(true);
    mock.timers.tick(60_000);
    assert.equal(shown(), "still there");
    set(false);
    mock.timers.tick(20_000);
    assert.equal(shown(), "");
  }
  // The second error has its own time.
  showError("first");
  mock.timers.tick(15_000);
  showError("second");
  mock.timers.tick(15_000);
  assert.equal(shown(), "second");
});

test("what the service says is shown in the page's language", async () => {
  const refusal = { error: 'there are no shots of "mug": take some first', code: "nothing_to_learn", values: { label: "mug" } };
  globalThis.fetch = async () => ({ ok: false, status: 409, json: async () => refusal });
  await assert.rejects(call("POST", "/api/v1/learn", {}), { message: refusal.error, status: 409, refusal });
  assert.equal(shown(), 'There are no shots of "mug": take some first.');
  await assert.rejects(call("POST", "/api/v1/shots/mug", new Blob([]), { name: "1.jpg" }));
  assert.equal(shown(), '1.jpg: There are no shots of "mug": take some first.', "of several files, it says which");
  setLanguage("de");
  await assert.rejects(call("POST", "/api/v1/learn", {}));
  assert.equal(shown(), "Es gibt noch keine Aufnahmen von „mug“: Bitte zuerst welche machen.");
});

test("an answer that is not the service's own is shown by its status, which has no text over HTTP/2", async () => {
  const answer = (status) => async () => ({ ok: false, status, statusText: "", json: async () => JSON.parse("<html>") });
  globalThis.fetch = answer(502);
  await assert.rejects(call("POST", "/api/v1/learn", {}), { status: 502 });
  assert.equal(shown(), "A proxy answered with 502 instead of the service: is the service running?");
  setLanguage("de");
  await assert.rejects(call("POST", "/api/v1/learn", {}));
  assert.equal(shown(), "Statt des Dienstes hat ein Proxy mit 502 geantwortet: Läuft der Dienst?");
  setLanguage("en");
  globalThis.fetch = answer(413);
  await assert.rejects(call("POST", "/api/v1/import", new Blob([])));
  assert.equal(shown(), "The file is too large.");
});

test("problems and warnings are German on a German page, and none is lost", () => {
  setLanguage("de");
  for (const [said, expected] of [
    ["is neither a JPEG nor a PNG nor a WebP picture", /weder ein JPEG/],
    ["is a HEIC file, which cannot be read: save it as JPEG", /^HEIC-Dateien/],
    ["is an AVIF file, which cannot be read: save it as JPEG or PNG", /^AVIF-Dateien/],
    ["is a WebP picture of 4096 x 4096 pixels, too large to decode within 64 MiB: save it as JPEG or make it smaller", /4096 x 4096 Bildpunkte/],
    ["is damaged: its end is missing", /beschädigt/],
    ["the picture is too large for this service: decoding it takes 300 MiB, but one picture may take 96 (--picture-memory)", /zu groß/],
    ["the camera seems to have been moved, or the light is quite another: show it the empty place again", /verschoben.*Einstellungen/],
    ["the empty place probably showed a thing that is gone now, so that where it was is taken for a thing: show the empty place again", /einem Ding gezeigt, das nun weg ist.*Einstellungen/],
    ["the empty place was shown with another size than the camera's frames have now, 640 x 360: show it again", /der Kamera \(640 x 360\)/],
    ["two regions have one name", /Namen gibt es schon/],
    ['"a=b" is no name for a region', /^„a=b“ kann kein Bereich heißen/],
    ["a camera has at most 8 regions, these are 9", /^Es gibt schon 8 Bereiche/],
    ["the disk of /var/lib/orco does not answer", /antwortet nicht/],
    ["nothing can be learned: the disk of /var/lib/orco is full", /Datenträger ist voll/],
    ["something of a later release", /^Der Dienst meldet auf Englisch: something of a later release$/],
  ]) assert.match(problem(said), expected, said);
  setLanguage("en");
  assert.equal(problem("the disk of /var/lib/orco does not answer"), "The disk of /var/lib/orco does not answer.");
  assert.equal(problem("is damaged: its end is missing"), "The picture is damaged.");
  assert.equal(problem("a camera has at most 8 regions, these are 9"), "There are 8 regions already: remove one first.");
  const moved = "the camera seems to have been moved, or the light is quite another: show it the empty place again";
  assert.match(problem(moved), /show it the empty place again \(Settings\)\.$/, "where that is done");
});

test("a token in the page's address is kept, sent, and no longer in the address", async () => {
  const address = { hash: "#token=abc", pathname: "/", search: "?x=1" };
  let shownAddress;
  globalThis.location = address;
  globalThis.history = { replaceState: (_state, _title, url) => { shownAddress = url; } };
  sessionStorage.setItem("token", "an older one");
  takeTokenFromAddress();
  assert.equal(shownAddress, "/?x=1");
  let sent;
  globalThis.fetch = async (_path, request) => { sent = request.headers.Authorization; return { ok: true, status: 200 }; };
  await call("GET", api("classes"));
  assert.equal(sent, "Bearer abc");
  assert.equal(localStorage.getItem("token"), null, "a proxy may have put another one in its place");
  await call("GET", api("status"));
  address.hash = "";
  takeTokenFromAddress();
  assert.equal(localStorage.getItem("token"), "abc", "an address without one changes nothing");
  await call("GET", "/api/v1/classes");
  assert.equal(sent, "Bearer abc", "the older one of the tab is gone");
});

test("a link of another site with a wrong token does not cost the one that is kept", async () => {
  globalThis.location = { hash: "#token=wrong", pathname: "/", search: "" };
  globalThis.history = { replaceState() {} };
  globalThis.fetch = async (_path, { headers }) => (headers.Authorization === "Bearer right" ? { ok: true, status: 200 } : WANTS_TOKEN);
  for (const kept of [localStorage, sessionStorage]) {
    kept.setItem("token", "right");
    takeTokenFromAddress();
    // As the page begins: all at once.
    const answers = await Promise.all(["status", "classes", "history"].map((path) => call("GET", api(path))));
    assert.ok(answers.every(({ ok }) => ok));
    assert.equal(kept.getItem("token"), "right");
    kept.removeItem("token");
  }
  // What no header can carry is passed over.
  globalThis.location.hash = "#token=%E2%82%AC";
  takeTokenFromAddress();
  assert.equal(sessionStorage.getItem("offered"), null);
  globalThis.location.hash = "#token=wrong";
  openDialog();
  takeTokenFromAddress();
  const asked = call("GET", api("status"));
  await new Promise((done) => setTimeout(done));
  assert.match(elements["dialog-text"].textContent, /^That is not the token of this service/);
  elements["dialog-no"].onclick();
  await assert.rejects(asked);
  assert.equal(localStorage.getItem("token"), null);
});

test("a request that takes too long fails, without a word where it is quiet", async () => {
  globalThis.fetch = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  // Node ends rather than wait for the timer of a signal alone.
  const awake = setTimeout(() => {}, 60_000);
  await assert.rejects(call("GET", "/api/v1/camera.jpg", undefined, { quiet: true, limitMs: 1 }), { name: "TimeoutError" });
  clearTimeout(awake);
  assert.equal(shown(), "");
});

test("behind a proxy that serves the page under a path, all of it is asked for there", () => {
  const page = "https://house.example/door3/";
  assert.equal(new URL(api("status"), page).href, `${page}api/v1/status`);
  const html = readFileSync(new URL("../index.html", import.meta.url), "utf8");
  const places = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, place]) => new URL(place, page).href);
  assert.ok(places.length && places.every((place) => place.startsWith(page)), places.join(" "));
});

test("a browser without JavaScript is told that the page needs it, in both languages", () => {
  const html = readFileSync(new URL("../index.html", import.meta.url), "utf8");
  const [, said] = /<noscript>(.*)<\/noscript>/.exec(html);
  assert.match(said, /needs JavaScript.* lang="de">.*braucht JavaScript/);
});

const WANTS_TOKEN = { ok: false, status: 401, json: async () => ({ error: "this needs the token", code: "unauthorized" }) };
const WANTS_PASSWORD = { ok: false, status: 401, json: () => Promise.reject(new SyntaxError("<html>")) };

function openDialog() {
  const dialog = { showModal() {}, close() { this.onclose(); }, contains: () => false };
  elements = { dialog, "dialog-picture": { replaceChildren() {} }, "dialog-value": { removeAttribute() {} } };
}

test("whoever is asked for the token learns where it stands, after a wrong one, too", async () => {
  openDialog();
  globalThis.fetch = async () => WANTS_TOKEN;
  for (const token of [undefined, "of yesterday"]) {
    if (token) sessionStorage.setItem("token", token);
    const asked = call("GET", "/api/v1/status");
    await new Promise((done) => setTimeout(done));
    assert.match(elements["dialog-text"].textContent, /--token-file .*`orco serve --phone`/);
    elements["dialog-no"].onclick();
    await assert.rejects(asked);
  }
});

test("a proxy that takes a password in the token's place is not told as a wrong token", async () => {
  openDialog();
  sessionStorage.setItem("token", "right");
  const sent = [];
  globalThis.fetch = async (path, { headers }) => {
    sent.push(headers.Authorization);
    return headers.Authorization ? WANTS_PASSWORD : WANTS_TOKEN;
  };
  const asked = call("GET", "/api/v1/status");
  await new Promise((done) => setTimeout(done));
  assert.match(elements["dialog-text"].textContent, /^A proxy .* takes a password.*--token-file/);
  elements["dialog-no"].onclick();
  await assert.rejects(asked);
  assert.deepEqual(sent, ["Bearer right", undefined]);

  globalThis.fetch = async (path, { headers }) => (headers.Authorization ? WANTS_PASSWORD : { ok: true });
  assert.ok((await call("GET", "/api/v1/status")).ok, "the proxy adds the token");
  globalThis.fetch = async () => WANTS_PASSWORD;
  await assert.rejects(call("GET", "/api/v1/status"));
  assert.equal(shown(), "A proxy answered with 401 instead of the service.");
});

test("who closes the question for the token is asked again by what he does, not by the page itself", async () => {
  let asked = 0;
  openDialog();
  elements.dialog.showModal = () => { asked++; };
  globalThis.fetch = async () => WANTS_TOKEN;
  for (const [options, questions] of [[{}, 1], [{ quiet: true }, 1], [{ quiet: true }, 1], [{}, 2]]) {
    const refused = assert.rejects(call("GET", "/api/v1/status", undefined, options));
    await new Promise((done) => setTimeout(done));
    assert.equal(asked, questions);
    if (!options.quiet) elements["dialog-no"].onclick();
    await refused;
    assert.equal(shown(), message("tokenDeclined"));
  }
});
