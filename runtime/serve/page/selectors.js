// What follows from the state: functions without side effects.

const ENOUGH_SHOTS = 5;

// The label that a typed text stands for. Browsers resolve "." and ".." in a URL, and the service refuses them.
export const labelOf = (typed) => typed.trim().replace(/^\.{1,2}$/, "");

// Whether there is anything to take pictures from.
export const hasSource = ({ stream, files, deviceChosen }) => Boolean(stream || files.length || deviceChosen);

export const isUnfinished = (job) => job?.state === "queued" || job?.state === "running";

// Whether a job is the one with that id or was requested later. Within one run of the service, ids count up.
export function isSameOrLater(job, id) {
  const [run, count] = job.id.split("-"), [otherRun, otherCount] = id.split("-");
  return run === otherRun && Number(count) >= Number(otherCount);
}

export const learnedClasses = ({ classes }) => classes.filter(({ learned }) => learned);
export const baseClasses = ({ classes }) => classes.filter(({ learned }) => !learned);

// Until the first attempt to connect ends, nothing speaks against the service.
export const isReachable = ({ connected }) => connected !== false;

export const canShoot = (state) => Boolean(isReachable(state) && state.label && hasSource(state));

export const canLearn = ({ connected, label, shots, job }) =>
  Boolean(isReachable({ connected }) && label && shots.length && !(isUnfinished(job) && job.label === label.normalize()));

// Whether a job is of what the page is about: of the typed label, or where none is typed yet.
export const isOfLabel = (job, label) => Boolean(job) && (!label || !job.label || job.label === label.normalize());

// A part of a picture, in shares of its sides, in pixels of a view that shows the whole picture as large as it can.
export function placeInView([left, top, width, height], [pictureWidth, pictureHeight], [viewWidth, viewHeight]) {
  const scale = Math.min(viewWidth / pictureWidth, viewHeight / pictureHeight);
  const [shownWidth, shownHeight] = [pictureWidth * scale, pictureHeight * scale];
  return [(viewWidth - shownWidth) / 2 + left * shownWidth, (viewHeight - shownHeight) / 2 + top * shownHeight,
    width * shownWidth, height * shownHeight];
}

export const middleOf = ([left, top, width, height]) => [left + width / 2, top + height / 2];

// What a thing is called; nothing if it is like nothing known.
export const thingName = ({ label, known }) => (known ? label : null);

// What to do next, as keys of texts: about the shots, and about the class if it is known already.
export function hints(state) {
  const { label, shots, classes } = state;
  if (!isReachable(state)) return [{ key: "hintOffline", values: {} }];
  const known = classes.find((one) => one.label === label.normalize());
  return [shotHint(state), ...(known ? [known.learned ? "hintLearned" : "hintBase"] : [])]
    .map((key) => ({ key, values: { count: shots.length, label: label.normalize() || state.job?.label } }));
}

const isLearned = (job) => job?.state === "done" && job.verb === "learn";

function shotHint(state) {
  if (!state.label) return isLearned(state.job) ? "hintLearnedNow" : "hintLabel";
  if (!state.shots.length) return hasSource(state) ? "hintFirst" : "hintSource";
  return state.shots.length < ENOUGH_SHOTS ? "hintMore" : "hintEnough";
}
