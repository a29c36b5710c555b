// What follows from the state: functions without side effects.

// As many shots as people are asked to take at first.
export const ENOUGH_SHOTS = 5;

// Whether pictures can be taken: from a camera or from files.
export const hasSource = ({ stream, files, deviceChosen }) => Boolean(stream || files.length || deviceChosen);

export const isUnfinished = (job) => job?.state === "queued" || job?.state === "running";

// The change to show once the service reports `newest`: one that waits or is made is shown until it ends, even if
// another one was requested meanwhile.
export const shownJob = (job, newest) => (isUnfinished(job) && job.id !== newest.id ? job : newest);

// Whether there is a report of a change that people have not seen.
export function isNewReport({ job, tab, reportSeen }) {
  if (!job || isUnfinished(job) || tab === "teach" || job.id === reportSeen) return false;
  return job.state === "failed" || job.change === "learn";
}

// Whether a job is the one with that id or was requested later. Within one run of the service, ids count up.
export function isSameOrLater(job, id) {
  const [run, count] = job.id.split("-"), [otherRun, otherCount] = id.split("-");
  return run === otherRun && Number(count) >= Number(otherCount);
}

export const learnedClasses = ({ classes }) => classes.filter(({ learned }) => learned);
export const baseClasses = ({ classes }) => classes.filter(({ learned }) => !learned);

// Until the first attempt to connect ends, nothing speaks against the service.
const isReachable = ({ connected }) => connected !== false;

export const canShoot = (state) => Boolean(isReachable(state) && state.label && hasSource(state));

export const canLearn = ({ connected, label, shots, job }) =>
  Boolean(isReachable({ connected }) && label && shots.length && !(isUnfinished(job) && job.label === label.normalize()));

// The class of a label, the learned one where it replaces a base class; it comes after that.
export const classOf = (label, classes) => classes.filter((known) => known.label === label.normalize()).at(-1);

// Whether nothing was taught yet.
export const isFirstTime = ({ classes, shots, waiting }) =>
  classes.length > 0 && !classes.some(({ learned }) => learned) && !shots.length && !waiting.length;

// Whether the typed label is that of a base class, which shots can be added to or replace.
export const isBaseLabel = ({ label, classes }) => classOf(label, classes)?.learned === false;

// Whether what is taught under a base class's label replaces it, unless somebody chooses otherwise: where answers name
// only what was learned, added shots would never be answered.
export const isReplaced = ({ status }) => status?.answers !== "all";

// Whether a job is about the typed label; any is, while no label is typed.
export const isOfLabel = (job, label) => Boolean(job) && (!label || !job.label || job.label === label.normalize());

// The parts of a picture that are analysed: its regions, else nothing special once the empty place is known, else the
// largest square.
export function analysedParts({ deviceChosen, regions, deviceCamera }, [width, height]) {
  if (deviceChosen && regions.length) return regions.map((region) => region.box);
  if (deviceChosen && deviceCamera?.scene?.state === "shown") return [];
  const side = Math.min(width, height);
  return [[(1 - side / width) / 2, (1 - side / height) / 2, side / width, side / height]];
}

// What a thing is called; nothing if it is like nothing known.
export const thingName = ({ label, known }) => (known ? label : null);

// How long a thing stayed that was seen, as the key of a text with its number; it is still there without one.
export function stay(seconds) {
  if (seconds === null) return { key: "stillThere" };
  if (seconds < 60) return { key: "staySeconds", count: seconds };
  return seconds < 3600 ? { key: "stayMinutes", count: Math.round(seconds / 60) }
    : { key: "stayHours", count: Math.round(seconds / 3600) };
}

// The history as people read it: a change and its undo are one line, entries that only went to another listed one are
// left out, changes that are no part of what is known now are marked. A purge stands for the change before it while that
// is remembered: it is no step.
export function historyLines({ history, present, earlier }) {
  const numbers = new Set(history.map(({ entry }) => entry)), kept = new Set([present, ...earlier]);
  return history.filter(({ change, to }) => change !== "undo" || !numbers.has(to))
    .map((entry) => {
      const isKept = kept.has(entry.entry), isStep = isKept || entry.change !== "purge";
      return { ...entry, isPresent: entry.entry === present, isStep, isUndone: isStep && !isKept };
    });
}

// What to do next, as keys of texts: about the shots, and about the class if it is known already.
export function hints(state) {
  const { label, shots, classes } = state;
  if (!isReachable(state)) return [{ key: "hintOffline", values: {} }];
  const known = classOf(label, classes);
  // Whether the shots are enough is said in one place.
  const shotKeys = shots.length && state.hasVerdict ? [] : [shotHint(state)];
  return [...shotKeys, ...(known ? [known.learned ? "hintLearned" : "hintBase"] : [])]
    .map((key) => ({ key, values: { count: shots.length, label: label.normalize() || state.job?.label } }));
}

const isLearned = (job) => job?.state === "done" && job.change === "learn";

function shotHint(state) {
  if (!state.label) return isLearned(state.job) ? "hintLearnedNow" : "hintLabel";
  if (!state.shots.length) return hasSource(state) ? "hintFirst" : "hintSource";
  return state.shots.length < ENOUGH_SHOTS ? "hintMore" : "hintEnough";
}
