// The service's events: each updates the store. A lost connection is opened again.
import { showError, sleep } from "./dom.js";
import { message } from "./language.js";
import { refreshAll, refreshClasses, refreshInbox, refreshShots, refreshSightings } from "./refresh.js";
import { isUnfinished, shownJob } from "./selectors.js";
import { api, call, get } from "./service.js";
import { NO_ANSWER, store } from "./store.js";

const RETRY_MS = 2000;
// The service sends something every 15 seconds. Only silence shows that a device has lost its power or its network.
const SILENCE_MS = 40_000;
// A browser opens six connections to a service, for all tabs together: hidden ones close theirs after so long.
const HIDDEN_MS = 10_000;
// A device that is gone may not even refuse a new stream: after so long the page says that it is not connected.
const CONNECT_MS = 5000;
// A request that does not reach the service says nothing about a stream that brought something within so long.
const ALIVE_MS = 3000;

// The complete events of a stream's text, and the rest that is still to be completed.
export function parseEvents(text) {
  const blocks = text.split("\n\n"), rest = blocks.pop();
  const field = (block, name) => new RegExp(`^${name}: ?(.*)$`, "m").exec(block)?.[1];
  return { events: blocks.map((block) => ({ kind: field(block, "event"), data: field(block, "data") })), rest };
}

// EventSource cannot send the token, so the stream is read by hand.
export async function listen() {
  for (let interrupted = null, isDoubted = false; ;) {
    let isReleased = () => false, wasDoubted = () => false, response = null;
    try {
      response = await openStream();
      // Errors disappear when `connected` becomes true, and it stayed true while the loss was only supposed.
      if (isDoubted) store.update({ connected: false });
      store.update({ connected: true });
      await refreshAll();
      if (interrupted) await resume(interrupted);
      interrupted = null;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      isReleased = releaseWhenHidden(reader);
      wasDoubted = endWhenUnreachable(reader);
      await receive(reader);
    } catch {
      // The next attempt follows. A browser opens few connections.
      response?.body?.cancel().catch(() => {});
    }
    interrupted ??= store.state;
    const wasReleased = isReleased();
    isDoubted = wasDoubted();
    // An old answer would be taken for a new one, and a service that was started anew numbers things from the start.
    store.update({ connected: wasReleased || isDoubted, answer: NO_ANSWER, chosenThing: null });
    await (wasReleased ? untilSeen() : sleep(RETRY_MS));
  }
}

export async function openStream(milliseconds = CONNECT_MS) {
  const timer = setTimeout(() => { if (store.state.connected) store.update({ connected: false }); }, milliseconds);
  try {
    return await call("GET", api("events"), undefined, { quiet: true });
  } finally {
    clearTimeout(timer);
  }
}

// Ends a stream once the page was hidden for a while. Returns a function that stops watching, and says whether it did.
export function releaseWhenHidden(reader, milliseconds = HIDDEN_MS) {
  let timer = null, isReleased = false;
  const release = () => {
    isReleased = true;
    reader.cancel().catch(() => {});
  };
  const watch = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(release, milliseconds);
  };
  document.addEventListener("visibilitychange", watch);
  watch();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", watch);
    return isReleased;
  };
}

// Ends the stream that is read.
let doubt = () => {};
store.subscribe(["missed"], () => doubt());
// When the stream brought something last, in milliseconds.
let heard = -Infinity;

// Ends a stream as soon as a request does not reach the service: silence would tell much later. Returns a function that
// stops watching, and says whether it did.
export function endWhenUnreachable(reader, milliseconds = ALIVE_MS) {
  let isDoubted = false;
  doubt = () => {
    if (performance.now() - heard < milliseconds) return;
    isDoubted = true;
    reader.cancel().catch(() => {});
  };
  return () => {
    doubt = () => {};
    return isDoubted;
  };
}

async function untilSeen() {
  while (document.hidden) {
    await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

// Handles events until the stream ends. Throws if nothing comes for `silence` milliseconds.
export async function receive(reader, silence = SILENCE_MS) {
  for (let rest = ""; ;) {
    const { value, done } = await readWithin(reader, silence);
    if (done) return;
    heard = performance.now();
    const parsed = parseEvents(rest + value);
    rest = parsed.rest;
    parsed.events.forEach(handle);
  }
}

async function readWithin(reader, milliseconds) {
  let timer;
  const expiry = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the service is silent")), milliseconds);
  });
  try {
    return await Promise.race([reader.read(), expiry]);
  } catch (error) {
    // Closes the connection. Nobody waits for that: the other side may be gone.
    reader.cancel().catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

// Some events were lost: everything is read again.
async function catchUp() {
  await refreshAll();
  await refreshJob();
}

// Reads what became of a job that had not ended; returns whether the service does not know it.
async function refreshJob() {
  const { job } = store.state;
  if (!isUnfinished(job)) return false;
  const newest = await get(`jobs/${job.id}`, { quiet: true }).catch(() => null);
  store.update({ job: newest });
  return !newest;
}

// Finds out what became of the shots and the job of before the connection was lost. After a change, as in another tab,
// shots that are gone may have been learned; other shots may be these, renamed, and the service did not restart.
export async function resume({ shots, waiting, history }) {
  const { job } = store.state, hadJob = isUnfinished(job), isJobLost = await refreshJob();
  const isChanged = store.state.history.at(-1)?.id !== history.at(-1)?.id;
  // A service that ends saves the change that it makes, and its next start does not know the job.
  if (isJobLost && isMade(job, history)) return store.update({ job: { ...job, state: "done", report: null } });
  const areThere = (state) => state.shots.length + state.waiting.length > 0;
  const areShotsLost = !hadJob && !isChanged && areThere({ shots, waiting }) && !areThere(store.state);
  if (isJobLost || areShotsLost) showError(message("startedAnew"));
}

// Whether the history has an entry of a job since then: one about its thing or, where it is about none, of its kind.
function isMade(job, before) {
  const earlier = new Set(before.map(({ id }) => id));
  // To redo is to undo an undoing.
  const change = job.change === "redo" ? "undo" : job.change;
  const isOfJob = (entry) => (job.label ? entry.labels?.includes(job.label) : entry.change === change);
  return store.state.history.some((entry) => !earlier.has(entry.id) && isOfJob(entry));
}

function handle({ kind, data }) {
  if (kind === "live") store.update({ deviceCamera: JSON.parse(data) });
  if (kind === "job") store.update({ job: shownJob(store.state.job, JSON.parse(data)) });
  if (kind === "lagged") catchUp().catch(() => {});
  if (kind === "changed") refreshClasses().catch(() => {});
  if (kind === "changed" || kind === "shots") refreshShots().catch(() => {});
  // A purge takes the sightings of its class away.
  if (kind === "sightings" || kind === "purged") refreshSightings().catch(() => {});
  if (kind === "inbox") refreshInbox().catch(() => {});
  // The report of a change shows labels of the class that was purged.
  if (kind === "purged" && JSON.parse(data).jobs.includes(store.state.job?.id)) store.update({ job: null });
}
