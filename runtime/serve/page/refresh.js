// Reads from the service into the store.
import { releaseStored } from "./pictures.js";
import { shownJob } from "./selectors.js";
import { beginRequest, get, shotsPath } from "./service.js";
import { store } from "./store.js";

const INBOX_EVERY_MS = 500;

export async function refreshClasses() {
  const isNewest = beginRequest("classes"), { job, deviceCamera } = store.state;
  const [status, { classes }, { entries, present, earlier }] = await Promise.all([get("status"), get("classes"), get("history")]);
  if (!isNewest()) return;
  releaseStored(classes);
  store.update({
    status,
    classes,
    history: entries,
    present: present ?? 0,
    earlier: earlier ?? [],
    // What events brought meanwhile is newer than the status.
    job: store.state.job === job ? shownJob(job, status.jobs[0] ?? job) : store.state.job,
    regions: status.regions ?? [],
    // A service that was started anew may have no camera any more.
    deviceCamera: status.camera && store.state.deviceCamera !== deviceCamera ? store.state.deviceCamera : status.camera ?? null,
  });
}

export async function refreshShots() {
  const isNewest = beginRequest("shots"), { label } = store.state;
  const [shots, { labels }] = await Promise.all([
    label ? get(shotsPath(label), { quiet: true }).then((list) => list.shots, () => []) : [],
    get("shots", { quiet: true }),
  ]);
  if (!isNewest() || label !== store.state.label) return;
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
  const isNewest = beginRequest("inbox"), inbox = await get("inbox");
  if (isNewest()) store.update({ inbox });
}

export async function refreshSightings() {
  const isNewest = beginRequest("sightings"), sightings = await get("sightings", { quiet: true });
  if (isNewest()) store.update({ sightings });
}

export const refreshAll = () => Promise.all([refreshClasses(), refreshShots(), refreshInbox(), refreshSightings()]);
