// Reads from the service into the store.
import { releaseStored } from "./pictures.js";
import { get, shotsPath } from "./service.js";
import { store } from "./store.js";

const INBOX_EVERY_MS = 500;

let newest = 0;
export async function refreshClasses() {
  const request = ++newest, { job } = store.state;
  const [status, { classes }, { entries, present, earlier }] = await Promise.all([get("status"), get("classes"), get("history")]);
  // Answers may overtake one another.
  if (request !== newest) return;
  releaseStored();
  store.update({
    status,
    classes,
    history: entries,
    present: present ?? 0,
    earlier: earlier ?? [],
    // What events brought meanwhile is newer than the status.
    job: store.state.job === job ? status.jobs[0] ?? job : store.state.job,
    regions: status.regions ?? [],
    // A service that was started anew may have no camera any more; of one that has it, events bring what is newer.
    deviceCamera: status.camera ? store.state.deviceCamera ?? status.camera : null,
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

export async function refreshSightings() {
  store.update({ sightings: await get("sightings", { quiet: true }) });
}

export const refreshAll = () => Promise.all([refreshClasses(), refreshShots(), refreshInbox(), refreshSightings()]);
