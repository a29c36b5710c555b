// The stream of events: read in pieces, lost, and opened again.
import assert from "node:assert/strict";
import test from "node:test";

import { showError } from "../dom.js";
import { endWhenUnreachable, openStream, parseEvents, receive, releaseWhenHidden, resume } from "../events.js";
import { call } from "../service.js";
import { store } from "../store.js";

test("events may be cut anywhere", () => {
  const stream = ": hello\n\nevent: job\ndata: {\"id\":\"1-1\"}\n\nevent:changed\ndata:\n\n";
  const expected = [
    { kind: undefined, data: undefined }, { kind: "job", data: "{\"id\":\"1-1\"}" }, { kind: "changed", data: "" },
  ];
  for (let cut = 0; cut <= stream.length; cut++) {
    const first = parseEvents(stream.slice(0, cut));
    const second = parseEvents(first.rest + stream.slice(cut));
    assert.deepEqual([...first.events, ...second.events], expected, `cut at ${cut}`);
    assert.equal(second.rest, "");
  }
});

test("a stream that falls silent is cancelled, one that goes on is not", async () => {
  const live = (number) => ({ value: `event: live\ndata: {"number":${number}}\n\n`, done: false });
  const chunks = [live(1), { value: ":\n\n", done: false }, live(2)];
  let cancelled = 0;
  const reader = {
    // The first three come at once, then nothing.
    read: () => (chunks.length ? Promise.resolve(chunks.shift()) : new Promise(() => {})),
    cancel: async () => { cancelled += 1; },
  };
  await assert.rejects(receive(reader, 20), /silent/);
  assert.equal(cancelled, 1);
  assert.deepEqual(store.state.deviceCamera, { number: 2 });
});

test("after events were lost, everything is read again, and what became of the job", async () => {
  globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
  const asked = [];
  const bodies = {
    status: { jobs: [] }, classes: { classes: [] }, history: { entries: [] }, shots: { labels: [] }, inbox: { groups: [] },
    sightings: { kept: false }, "1-1": { id: "1-1", state: "done" },
  };
  globalThis.fetch = async (path) => {
    asked.push(path.replace("api/v1/", ""));
    return { ok: true, json: async () => bodies[path.split("/").at(-1)] };
  };
  store.update({ label: "", job: { id: "1-1", state: "running" } });
  const chunks = [{ value: "event: lagged\ndata: {}\n\n", done: false }, { value: "", done: true }];
  await receive({ read: async () => chunks.shift(), cancel: async () => {} });
  await new Promise((done) => setTimeout(done, 20));
  for (const path of ["status", "shots", "inbox", "sightings", "jobs/1-1"]) assert.ok(asked.includes(path), `${path} of ${asked}`);
  assert.equal(store.state.job.state, "done");
});

test("time that the service needs between two events is counted anew for each", async () => {
  let left = 4;
  const reader = {
    read: () => new Promise((resolve) => setTimeout(() => resolve({ value: ":\n\n", done: (left -= 1) === 0 }), 100)),
    cancel: async () => assert.fail("it is not silent"),
  };
  await receive(reader, 300);
  assert.equal(left, 0);
});

test("a tab that nobody looks at lets go of its connection, one that is seen again in time keeps it", async () => {
  const page = Object.assign(new EventTarget(), { hidden: true });
  globalThis.document = page;
  let cancelled = 0;
  const reader = { cancel: async () => { cancelled += 1; } };
  const show = (isSeen) => {
    page.hidden = !isSeen;
    page.dispatchEvent(new Event("visibilitychange"));
  };
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const isReleased = releaseWhenHidden(reader, 100);
  show(true);
  await pause(150);
  assert.equal(cancelled, 0);
  show(false);
  await pause(150);
  assert.equal(cancelled, 1);
  assert.equal(isReleased(), true);
  const isOtherReleased = releaseWhenHidden(reader, 100);
  assert.equal(isOtherReleased(), false);
  await pause(150);
  assert.equal(cancelled, 1, "the stream has ended");
});

test("a stream is opened anew once a request does not reach the service, and not where one was ended or refused", async () => {
  globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
  let cancelled = 0;
  let wasDoubted = endWhenUnreachable({ cancel: async () => { cancelled += 1; } });
  const send = async (answer) => {
    globalThis.fetch = answer;
    await assert.rejects(call("POST", "api/v1/classify", {}, { quiet: true }));
  };
  await send(async () => ({ ok: false, status: 400, json: async () => ({}) }));
  await send(() => Promise.reject(new DOMException("too late", "TimeoutError")));
  assert.equal(cancelled, 0);
  // A stream that has just brought something is not doubted.
  const chunks = [{ value: ":\n\n", done: false }, { done: true }];
  await receive({ read: async () => chunks.shift() });
  await send(() => Promise.reject(new TypeError("Failed to fetch")));
  assert.deepEqual([cancelled, wasDoubted()], [0, false]);
  wasDoubted = endWhenUnreachable({ cancel: async () => { cancelled += 1; } }, 0);
  await send(() => Promise.reject(new TypeError("Failed to fetch")));
  assert.deepEqual([cancelled, wasDoubted()], [1, true]);
  await send(() => Promise.reject(new TypeError("Failed to fetch")));
  assert.equal(cancelled, 1, "it has ended");
});

test("a page that waits for its stream to be opened again does not say that it is connected", async () => {
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  let answer;
  globalThis.fetch = () => new Promise((done) => { answer = done; });
  store.update({ connected: true });
  const opening = openStream(20);
  await pause(50);
  assert.equal(store.state.connected, false);
  answer({ ok: true });
  assert.deepEqual(await opening, { ok: true });
  store.update({ connected: true });
  globalThis.fetch = async () => ({ ok: true });
  await openStream(20);
  await pause(50);
  assert.equal(store.state.connected, true);
});

test("shots that are gone are told as lost unless another tab may have renamed or learned them", async () => {
  const elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= { textContent: "", hidden: true }) };
  const before = { shots: [{ id: "1" }], waiting: [], history: [{ id: 1 }] };
  const said = async (state, earlier = before) => {
    store.update({ label: "mug", shots: [], job: null, history: before.history, waiting: [], ...state });
    await resume(earlier);
    const sentence = elements.error?.textContent ?? "";
    showError();
    return sentence;
  };
  assert.match(await said({}), /started anew/);
  assert.equal(await said({ history: [{ id: 1 }, { id: 2 }] }), "");
  const cup = { waiting: [{ label: "cup", shots: 1 }] };
  assert.equal(await said(cup), "");
  const cupAlone = { ...before, ...cup, shots: [] };
  assert.match(await said({ label: "" }, cupAlone), /started anew/);
  assert.equal(await said({ label: "cup", shots: [{ id: "1" }] }, cupAlone), "");
  assert.equal(await said({}, { ...before, shots: [] }), "");
});

test("a change that was saved before the service was started anew is told as made, another one as lost", async () => {
  const elements = {};
  globalThis.document = { getElementById: (id) => (elements[id] ??= { textContent: "", hidden: true }) };
  globalThis.fetch = async () => ({ ok: false, status: 404, json: async () => ({}) });
  const before = { shots: [{ id: "1" }], waiting: [], history: [{ id: 1, labels: [] }] };
  const jobs = [
    [{ change: "learn", label: "mug" }, { change: "learn", labels: ["mug"] }, "done"],
    [{ change: "learn", label: "cup" }, { change: "learn", labels: ["mug"] }, undefined],
    [{ change: "balance", label: null }, { change: "balance", labels: [] }, "done"],
    [{ change: "undo", label: null }, { change: "balance", labels: [] }, undefined],
  ];
  for (const [job, entry, state] of jobs) {
    const history = [...before.history, { id: 2, ...entry }];
    store.update({ job: { id: "1-1", state: "running", ...job }, history, shots: [], waiting: [] });
    await resume(before);
    assert.equal(store.state.job?.state, state, job.change);
    assert.equal(/started anew/.test(elements.error?.textContent), !state, job.change);
    showError();
  }
});
