// What follows from the state: functions without side effects.

// As many shots as people are asked to take at first.
export const ENOUGH_SHOTS = 5;

const LEAST_REGION = 0.05;

// Invisible characters, which keyboards put around emoji, and this page around names that are written from the right;
// the service refuses them.
const UNSEEN = /[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff]/g;

// Joiners, but for those between letters of scripts that join, or emoji: spelling needs these.
const JOINED = "\\u0600-\\u0dff\\u2190-\\u2bff\\ufb50-\\ufdff\\ufe70-\\ufefc\\u{1f000}-\\u{1faff}";
const LOOSE_JOINER = new RegExp(`(?<![${JOINED}])[\\u200c\\u200d]|[\\u200c\\u200d](?![${JOINED}])`, "gu");

// The label that a typed text stands for. Browsers resolve "." and ".." in a URL, and the service refuses them.
export const labelOf = (typed) => typed.replace(UNSEEN, "").replace(LOOSE_JOINER, "").replace(/\s+/g, " ").trim().replace(/^\.{1,2}$/, "");

// The label that a typed text stands for: as it is typed if that is known, else as it is known in other capitals or with
// underscores for spaces: of a learned class, of shots that wait (`waiting` lacks those of the chosen label), or of a base
// class.
export function knownLabelFor(typed, { classes, waiting, label: chosen, shots = [] }) {
  const label = labelOf(typed), plain = (name) => name.normalize().toLowerCase().replaceAll("_", " ");
  const held = shots.length && chosen ? [{ label: chosen }, ...waiting] : waiting;
  const known = [...learnedClasses({ classes }), ...held, ...classes].map((one) => one.label);
  return known.includes(label.normalize()) ? label : known.find((name) => plain(name) === plain(label)) ?? label;
}

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
export const isReachable = ({ connected }) => connected !== false;

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

// A part of a picture, in shares of its sides, as pixels of a view into which the whole picture fits.
export function placeInView([left, top, width, height], [pictureWidth, pictureHeight], [viewWidth, viewHeight]) {
  const scale = Math.min(viewWidth / pictureWidth, viewHeight / pictureHeight);
  const [shownWidth, shownHeight] = [pictureWidth * scale, pictureHeight * scale];
  return [(viewWidth - shownWidth) / 2 + left * shownWidth, (viewHeight - shownHeight) / 2 + top * shownHeight,
    width * shownWidth, height * shownHeight];
}

// The inverse: a view's pixel as a place in the picture, in shares of its sides; beyond the picture, its nearest edge.
export function placeInPicture([x, y], size, view) {
  const [left, top, width, height] = placeInView([0, 0, 1, 1], size, view);
  return [(x - left) / width, (y - top) / height].map((share) => Math.min(1, Math.max(0, share)));
}

// The rectangle between two places of a picture; nothing if it is hardly more than a tap.
export function regionBetween([x, y], [otherX, otherY]) {
  const [width, height] = [Math.abs(x - otherX), Math.abs(y - otherY)];
  return width < LEAST_REGION || height < LEAST_REGION ? null : [Math.min(x, otherX), Math.min(y, otherY), width, height];
}

// Rectangles that cover what these cover, without overlap.
export function disjoint(rectangles) {
  const parts = [];
  for (const rectangle of rectangles) {
    let rest = [rectangle];
    for (const taken of parts) rest = rest.flatMap((part) => without(part, taken));
    parts.push(...rest);
  }
  return parts;
}

// What is left of a rectangle without another one: the parts above, below, left and right of it.
function without([x, y, width, height], [left, top, across, down]) {
  const within = (place, low, length) => Math.min(Math.max(place, low), low + length);
  const [from, to] = [left, left + across].map((place) => within(place, x, width));
  const [upper, lower] = [top, top + down].map((place) => within(place, y, height));
  const parts = [[x, y, width, upper - y], [x, lower, width, y + height - lower],
    [x, upper, from - x, lower - upper], [to, upper, x + width - to, lower - upper]];
  return parts.filter((part) => part[2] > 0 && part[3] > 0);
}

// Where the name of a region may go beyond it and stay in the view: to the right in the left half, and below at the
// top, where a name needs up to 96 pixels.
export const nameSides = ([x, y, width, height], [viewWidth]) =>
  ({ leftmost: 2 * x + width < viewWidth, topmost: y + height < 96 });

// The parts of a picture that are analysed: its regions, else nothing special once the empty place is known, else the
// largest square.
export function analysedParts({ deviceChosen, regions, deviceCamera }, [width, height]) {
  if (deviceChosen && regions.length) return regions.map((region) => region.box);
  if (deviceChosen && deviceCamera?.scene?.state === "shown") return [];
  const side = Math.min(width, height);
  return [[(1 - side / width) / 2, (1 - side / height) / 2, side / width, side / height]];
}

export const middleOf = ([left, top, width, height]) => [left + width / 2, top + height / 2];

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
// left out, and changes that are no part of what is known now are marked. A purge stands for the change before it, as
// long as that is remembered: it is no step.
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
