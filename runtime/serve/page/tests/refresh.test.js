// Answers to earlier requests do not undo what events have said since.
import assert from "node:assert/strict";
import test from "node:test";

import { refreshClasses, refreshInbox, refreshShots, refreshSightings } from "../refresh.js";
import { store } from "../store.js";

globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };

// Requests to a service that answers when the test lets it.
function held() {
  const requests = [];
  globalThis.fetch = (path) => new Promise((resolve) => requests.push({ path, resolve }));
  return requests;
}

function answer(requests, { job, label, camera }) {
  const bodies = { status: { jobs: job ? [job] : [], camera }, classes: { classes: [{ label }] }, history: { entries: [] } };
  requests.forEach(({ path, resolve }) => resolve({ ok: true, json: async () => bodies[path.split("/").at(-1)] }));
}

test("a job that ended while its status was on the way stays ended", async () => {
  const requests = held();
  store.update({ job: { id: "1-1", state: "running" } });
  const refreshed = refreshClasses();
  store.update({ job: { id: "1-1", state: "done" } });
  answer(requests, { job: { id: "1-1", state: "running" }, label: "mug" });
  await refreshed;
  assert.deepEqual(store.state.job, { id: "1-1", state: "done" });
  assert.deepEqual(store.state.classes, [{ label: "mug" }]);
});

test("without an event meanwhile, the status tells of the job", async () => {
  const requests = held();
  const refreshed = refreshClasses();
  answer(requests, { job: { id: "2-1", state: "waiting" }, label: "mug" });
  await refreshed;
  assert.equal(store.state.job.id, "2-1");
});

test("a change that is shown is shown until it ends, whoever asks for another one", async () => {
  const requests = held();
  store.update({ job: { id: "2-2", state: "running" } });
  const refreshed = refreshClasses();
  answer(requests, { job: { id: "2-1", state: "running" }, label: "mug" });
  await refreshed;
  assert.equal(store.state.job.id, "2-2");
});

test("the camera is as the status says, unless an event told of it meanwhile", async () => {
  const requests = held();
  store.update({ deviceCamera: { state: "running" } });
  for (const event of [null, { state: "running" }]) {
    const refreshed = refreshClasses();
    if (event) store.update({ deviceCamera: event });
    answer(requests.splice(0), { label: "mug", camera: { state: "away" } });
    await refreshed;
    assert.equal(store.state.deviceCamera.state, event?.state ?? "away");
  }
});

test("an answer that a newer one overtook is not shown", async () => {
  const requests = held();
  const older = refreshClasses(), overtaken = requests.splice(0), newer = refreshClasses();
  answer(requests, { label: "new" });
  await newer;
  answer(overtaken, { label: "old" });
  await older;
  assert.deepEqual(store.state.classes, [{ label: "new" }]);
});

// Lets the newer of two requests of a kind be answered first; `field` is what the store has then.
async function overtake(refresh, field, body) {
  const requests = held();
  const answerAll = (some, text) => some.forEach(({ path, resolve }) => resolve({ ok: true, json: async () => body(path, text) }));
  const older = refresh(), overtaken = requests.splice(0), newer = refresh();
  assert.ok(overtaken.length && requests.length);
  answerAll(requests, "new");
  await newer;
  answerAll(overtaken, "old");
  await older;
  return store.state[field];
}

test("shots that newer ones overtook are not shown", async () => {
  store.update({ label: "mug" });
  const body = (path, text) => (path.endsWith("/mug") ? { shots: [{ id: text }] } : { labels: [] });
  assert.deepEqual(await overtake(refreshShots, "shots", body), [{ id: "new" }]);
});

test("sightings that newer ones overtook are not shown", async () => {
  const shown = await overtake(refreshSightings, "sightings", (_, text) => ({ kept: true, sightings: [text] }));
  assert.deepEqual(shown.sightings, ["new"]);
});

test("an inbox that a newer one overtook is not shown", async (context) => {
  // The second reading has to wait: its time is over at once.
  const { setTimeout: timeout } = globalThis;
  context.after(() => { globalThis.setTimeout = timeout; });
  let expire = null;
  globalThis.setTimeout = (done, milliseconds) => (milliseconds === 500 ? ((expire = done), 1) : timeout(done, milliseconds));
  const refresh = () => { expire?.(); return refreshInbox(); };
  assert.deepEqual(await overtake(refresh, "inbox", (_, text) => ({ groups: [text], most: 9 })), { groups: ["new"], most: 9 });
  expire();
});
