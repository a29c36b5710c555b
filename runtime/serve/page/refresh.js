// Reads from the service into the store.
import { releaseStored } from "./pictures.js";
import { get, shotsPath } from "./service.js";
import { store } from "./store.js";

const INBOX_EVERY_MS = 500;

export async function refreshClasses() {
  const [status, { classes }, { entries }] = await Promise.all([get("status"), get("classes"), get("history")]);
  releaseStored();
  store.update({
    status,
    classes,
    history: entries,
    job: status.jobs[0] ?? store.state.job,
    // Its events are newer than the status.
    deviceCamera: store.state.deviceCamera ?? status.camera,
  });
}

export async function refreshShots() {
  const { label } = store.state;
  const [shots, { labels }] = await Promise.all([
    label ? get(shotsPath(label), { quiet: true }).then((list) => list.shots, () => []) : [],
    get("shots", { quiet: true }),
  ]);
  if (label !== store.state.label) return;
  store.update({ shots, waiting: labels.filter((other) => other.label !== label.normalize()) });
}

// A camera may fill the inbox with every frame: it is read at once, then at most every INBOX_EVERY_MS.
let timer = null, isStale = false;
export async function refreshInbox() {
  if (timer) { isStale = true; return; }
  timer = setTimeout(() => {
    timer = null;
    if (isStale) refreshInbox().catch(() => {});
    isStale = false;
  }, INBOX_EVERY_MS);
  store.update({ inbox: await get("inbox") });
}

export const refreshAll = () => Promise.all([refreshClasses(), refreshShots(), refreshInbox()]);
