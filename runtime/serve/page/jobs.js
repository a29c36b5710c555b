// Changes as they are made, and the report of what they changed.
import { $, element, redraw, setText, showError } from "./dom.js";
import { message, percent, readable, term } from "./language.js";
import { noPicture, picturedShots, storedPicture } from "./pictures.js";
import { problem } from "./problems.js";
import { refusalText } from "./refusals.js";
import { classOf, isBaseLabel, isOfLabel, isUnfinished } from "./selectors.js";
import { store } from "./store.js";

// Most classes or pairs that a report names of each kind, and most pictures of each class in it.
const MOST_LINES = 3, MOST_PICTURES = 3;
// A loss of up to this share of a class's samples may be chance.
const CHANCE = 0.25;

export function startJobs() {
  store.subscribe(["job", "label", "deviceChosen", "language"], show);
  // The classes that a report shows may have other pictures now.
  store.subscribe(["classes"], (state) => { if (state.job?.state === "done") show(state); });
  store.subscribe(["status", "language"], showAlignment);
  store.subscribe(["job"], showUnseenProblem);
}

// A change answers at once. Answers may change once more when the head is aligned to it.
let wasAligning = false;
function showAlignment({ status }) {
  setText("alignment", alignmentText(status, wasAligning));
  wasAligning ||= Boolean(status?.improving);
}

export function alignmentText(status, wasAligning) {
  if (status?.improving) return message("aligning");
  return wasAligning ? message("aligned") : "";
}

function show({ job, label, classes, deviceCamera, deviceChosen, status }) {
  $("job").hidden = !isUnfinished(job);
  if (isUnfinished(job)) showProgress(job);
  // Under the shots of the next thing, the report of the one before would be taken for its.
  const isShown = isOfLabel(job, label) && !isUnfinished(job);
  const told = status?.learned_only ? { ...job, report: answeredPart(job?.report, classes) } : job;
  redraw($("report"), isShown ? reportElements(told, classes, deviceChosen ? deviceCamera : null) : []);
}

// Where the report is not seen, in another tab or under the next label, failures and warnings are told.
export function showUnseenProblem({ job, tab, label }) {
  const said = job?.state === "failed" ? failure(job) : job?.warning && problem(job.warning);
  if (said && (tab !== "teach" || !isOfLabel(job, label))) showError(said);
}

// After a fault in the service, nobody may know whether the change was saved.
const failure = (job) => message(job.changed === null ? "uncertain" : "failed", { error: refusalText(job) });

function showProgress(job) {
  const verb = `${term("verbs", job.change)}${job.label ? ` ${message("quoted", job)}` : ""}`;
  setText("job-text", message(job.state, { verb }));
  $("job-bar").value = job.progress ?? 0;
}

// The report that somebody opened or closed: it is drawn anew with every change of classes.
let chosen = null;

function reportElements(job, classes, camera) {
  if (job.state === "failed") return [element("p", { className: "warning", textContent: failure(job) })];
  const lines = reportLines(job, camera?.scene?.state);
  const list = element("ul", {}, ...lines.map(({ text, isWarning }) =>
    element("li", { textContent: text, className: isWarning ? "warning" : "" })));
  const title = job.change === "learn" && job.label ? message("learnedTitle", job) : message("done");
  // One line, unless there is something to act upon, or people chose. A press comes before the change.
  const choose = ({ target }) => { chosen = { id: job.id, isOpen: !target.parentElement.open }; };
  const isOpen = chosen?.id === job.id ? chosen.isOpen : lines.some(({ isWarning }) => isWarning);
  return [element("details", { open: isOpen }, element("summary", { textContent: title, on: choose }),
    list, ...comparisons(job.report, classes))];
}

// A report without what only matters where answers name base classes.
export function answeredPart(report, classes) {
  const isBase = (label) => isBaseLabel({ label, classes });
  return report && {
    ...report,
    old_accuracy: null,
    lost: report.lost?.filter(({ label }) => !isBase(label)),
    confusions: report.confusions?.filter((pair) => !isBase(pair.label) && !isBase(pair.taken_for)),
  };
}

const first = (list) => (list ?? []).slice(0, MOST_LINES);

// One sample of five more or less says nothing.
const isNotChance = ({ before, after }) => before - after > CHANCE;

// Lines of a report. What is still confused after learning is a warning: before, nobody could know.
// Where the empty place was shown, the place is no reason for shots to be alike; only the service's own camera can be
// shown it.
export function reportLines({ report, warning }, scene) {
  const alike = scene === "shown" ? "oneSide" : scene ? "oneScene" : "oneSceneHandheld";
  const shares = ({ before, after }) => ({ before: percent(before), after: percent(after) });
  const note = (key, values) => ({ text: message(key, values), isWarning: false });
  const loud = (key, values) => ({ text: message(key, values), isWarning: true });
  const confusions = first(report?.confusions), sharing = report?.sharing_shots ?? [];
  // No sample is left of a class all of whose shots another one has, too.
  const isShared = ({ label, samples }) => samples === 0 && sharing.some((pair) => pair.includes(label));
  // What a class is taken for says more than how much less it is recognised.
  const lost = first(report?.lost?.filter(isNotChance)).filter(({ label }) => !confusions.some((confused) => confused.label === label));
  return [
    ...(report?.new ?? []).filter((one) => !isShared(one)).map(({ label, after, samples }) =>
      (samples === 0 ? note("learnedOne", { label }) : note("learnedNew", { label, percent: percent(after) }))),
    ...first(report?.one_scene).map((label) => note(alike, { label })),
    ...(report?.old_accuracy ? [note("kept", shares(report.old_accuracy))] : []),
    ...first(sharing).map(([label, other]) => loud("shared", { label, other })),
    ...first(report?.repeated).map(({ label, shots: count }) => note("copies", { label, count })),
    ...lost.map((one) => loud("lost", { label: one.label, ...shares(one) })),
    ...confusions.map(({ label, taken_for: other, share }) =>
      loud("confused", { label, other, percent: percent(share) })),
    ...(warning ? [{ text: problem(warning), isWarning: true }] : []),
  ];
}

// Pictures of classes that are taken for one another, side by side; if there are none, those of new classes.
function comparisons(report, classes) {
  const confused = first(report?.confusions).map(({ label, taken_for: other }) =>
    sideBySide([label, other], classes, message("sideBySide", { label, other })));
  if (confused.length) return confused;
  return first(report?.new).map(({ label }) => sideBySide([label], classes, message("newClass", { label })));
}

function sideBySide(labels, classes, title) {
  const columns = labels.map((label) => {
    const shots = picturedShots(classOf(label, classes)).slice(0, MOST_PICTURES);
    const pictures = shots.length ? shots.map((shot) => storedPicture(label, shot)) : [noPicture()];
    return element("div", {}, element("div", { className: "strip" }, ...pictures),
      element("p", { className: "small", textContent: readable(label) }));
  });
  return element("div", { className: "beside-pictures", role: "group", "aria-label": title }, ...columns);
}
