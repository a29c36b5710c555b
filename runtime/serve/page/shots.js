// Shots that are not learned yet: they are taken, shown and learned.
import { $, DOUBLE_CLICK_MS, element, isByKey, isFocusLost, isPressKey, onRelease, redraw, setText, showError, sleep } from "./dom.js";
import { knownLabelFor, labelOf } from "./labels.js";
import { isolate, message, percent, readable } from "./language.js";
import { picture, releasePictures } from "./pictures.js";
import { refreshShots } from "./refresh.js";
import { refusalText } from "./refusals.js";
import { chosenPlace } from "./scene.js";
import { ENOUGH_SHOTS, canLearn, canShoot, classOf, hints, isBaseLabel, isFirstTime, isReplaced, isSameOrLater } from "./selectors.js";
import { api, call, change, shotsPath } from "./service.js";
import { frame } from "./source.js";
import { store } from "./store.js";
import { showSufficiency } from "./sufficiency.js";

// Pause between two shots while the button is held.
const EVERY_MS = 450;
// Longer side of the browser camera's shots, in pixels.
const SIDE = 1280;
// A shot without an answer is given up after this long, so that others can be taken. The service itself gives a picture
// 30 s to arrive.
const SHOT_MS = 60_000;
// More files than this that are refused for one reason are not named.
const MOST_NAMES = 5;
const { subscribe, update } = store;

let isHeld = false, isRequested = false;
// The shots that are being taken, { label, done }; `done` is settled once the last of them is in.
let taking = null;
// Whether several shots are being taken one after the other; others have to wait.
let isTakingEach = false;
// Whether shots are being removed or renamed: those that follow move under the pointer.
let isChanging = false;
// Ids of the shots that were taken here: others come from other browsers and programs.
const takenHere = new Set();
// Whether shots replace a base class, as somebody chose for its label.
const replaces = new Map();
// The change that was asked for here: once it is made, the next thing gets another name.
let requested = null;
// What was refused last, each { shot, label }: the shot is a file, or a frame of the service's own camera.
let refused = [];

export function startShots() {
  $("label").oninput = () => {
    forgetWarning();
    update({ label: knownLabelFor($("label").value, store.state) });
    refreshShots().catch(() => {});
  };
  listenToShoot();
  $("anyway").onclick = () => takeEach(refused, { anyway: true }).catch(() => {});
  $("replace").onchange = () => replaces.set(store.state.label, $("replace").checked);
  $("learn").onclick = (event) => learn(isByKey(event)).catch(() => {});
  subscribe(["label", "shots", "classes", "job", "stream", "files", "deviceChosen", "connected", "hasVerdict", "waiting", "language"], showControls);
  subscribe(["job", "shots"], startAnew);
  subscribe(["shots", "language"], showShots);
  subscribe(["waiting", "label", "language"], showWaiting);
  subscribe(["connected", "language"], () => tell([]));
  // A browser may have kept what was typed before the page was loaded again. No class is known yet.
  update({ label: labelOf($("label").value) });
  showControls(store.state);
}

// Goes on with the shots of that label.
export function chooseLabel(label) {
  $("label").value = label;
  $("label").dispatchEvent(new Event("input"));
}

// Shots are taken as long as the button is held.
function listenToShoot() {
  let byKey = false;
  // The click that a key makes comes before the timer, or never: files are being taken, and the button is disabled.
  const release = () => { isHeld = false; setTimeout(() => { byKey = false; }); };
  $("shoot").onpointerdown = ({ button }) => { if (!button) hold(); };
  $("shoot").oncontextmenu = (event) => event.preventDefault();
  $("shoot").onkeydown = (event) => {
    if (event.repeat || !isPressKey(event)) return;
    byKey = true;
    hold();
  };
  onRelease(release);
  // Screen readers press without holding; the click that a key makes comes after it.
  $("shoot").onclick = (event) => {
    if (isByKey(event) && !byKey) { hold(); release(); }
    byKey = false;
  };
}

function hold() {
  if (taking || $("shoot").disabled) return;
  // The shots belong to the label of the moment in which they were begun.
  const { label, files } = store.state;
  isHeld = true;
  showError();
  taking = { label, done: takeAll(label, files).catch(() => {}).finally(() => { isHeld = false; taking = null; }) };
}

async function takeAll(label, files) {
  if (files.length) return takeEach(files.map((file) => ({ shot: file, label })));
  let hasTaken = false;
  do {
    const shot = store.state.deviceChosen ? chosenPlace(store.state) : await frame(SIDE);
    if (store.state.deviceChosen && !shot) {
      tell([]);
      $("shot-note").textContent = message("chosenGone");
      return update({ chosenThing: null });
    }
    const outcome = shot && await take(shot, label);
    if (outcome) tell([outcome], { isHeldOn: hasTaken });
    hasTaken ||= Boolean(outcome?.accepted);
    await sleep(EVERY_MS);
  } while (isHeld && (store.state.stream || store.state.deviceChosen));
}

// Takes several shots, and says of all of them what there is to say.
export async function takeEach(shots, options) {
  if (isTakingEach) return;
  const focused = document.activeElement;
  isTakingEach = true;
  enableTaking(store.state);
  try {
    await takeInTurn(shots, options);
  } finally {
    isTakingEach = false;
    enableTaking(store.state);
    restoreFocus(focused);
  }
}

// A button that cannot be pressed loses the focus, and one that is gone does not get it back.
function restoreFocus(focused) {
  if (!isFocusLost() || focused?.disabled !== false) return;
  focused.focus();
  if (isFocusLost()) $("shoot").focus();
}

async function takeInTurn(shots, { anyway = false } = {}) {
  const outcomes = [], unusable = [];
  for (const { shot, label } of shots) {
    const before = unusable.length, outcome = await take(shot, label, { anyway, unusable });
    // The error of the last file would hide those of the others.
    if (before && unusable.length > before) showError(ofFiles(unusable));
    // What had no answer was refused before, and can be taken again.
    if (!outcome && anyway) outcomes.push({ accepted: false, warnings: [], said: { warnings: [], notes: [] }, shot, label });
    if (outcome) outcomes.push(outcome);
    tell(outcomes);
  }
}

// What is said of files: each sentence once, after the names of its files; those of cameras have none.
function ofFiles(sentences) {
  const names = new Map();
  for (const { name, text } of sentences) names.set(text, [...(names.get(text) ?? []), ...(name ? [isolate(name)] : [])]);
  const listed = (some) => `${some.slice(0, MOST_NAMES).join(", ")}${some.length > MOST_NAMES ? ", …" : ""}`;
  return [...names].map(([text, some]) => (some.length ? `${listed(some)}: ${text}` : text)).join(" ");
}

// Sends a picture, or has the service take that frame, or the newest, of its own camera; returns what came of it, or
// null without an answer. What is said of a file that is refused, { name, text }, is added to `unusable`.
async function take(shot, label, { anyway = false, unusable = [] } = {}) {
  const isFile = shot instanceof Blob, limitMs = SHOT_MS;
  const request = isFile ? call("POST", `${api(shotsPath(label))}${anyway ? "?anyway=true" : ""}`, shot, { name: shot.name, limitMs })
    : call("POST", api("camera/shot"), { label, anyway, ...shot }, { limitMs });
  const response = await request.catch(({ refusal }) => {
    if (refusal && isFile) unusable.push({ name: shot.name, text: refusalText(refusal) });
  });
  if (!response) return null;
  const { accepted, id, warnings, frame: number } = await response.json();
  if (accepted) takenHere.add(id);
  const isLearned = classOf(label, store.state.classes)?.learned === true;
  const said = shotSentences(warnings, { label, anyway, isLearned });
  return { accepted, warnings, said, label, shot: isFile ? shot : { ...shot, frame: number } };
}

// Shows what came of shots. `isHeldOn` says that the button was held on after a shot.
function tell(outcomes, { isHeldOn = false } = {}) {
  refused = outcomes.filter(({ accepted }) => !accepted);
  // While the button is held, the same picture comes again by itself.
  const isRepeatWhileHeld = isHeldOn && refused.length > 0
    && refused.every(({ warnings }) => warnings.every(({ kind }) => kind === "repeated"));
  const sentences = (kind) => ofFiles(outcomes.flatMap(({ said, shot }) =>
    said[kind].map((text) => ({ text, name: kind === "warnings" ? shot.name : "" }))));
  $("shot-warning").textContent = isRepeatWhileHeld ? "" : sentences("warnings");
  $("shot-note").textContent = isRepeatWhileHeld ? message("holdsStill") : sentences("notes");
  $("anyway-row").hidden = !refused.length || isRepeatWhileHeld;
}

// What is said of a shot. That a new thing looks like another one is a note, since learning tells them apart; of a
// learned thing it is a warning. Reasons against a shot that was taken anyway are known.
export function shotSentences(warnings, { label, anyway, isLearned }) {
  const isSimilar = ({ kind }) => kind === "looks-like";
  const isLoud = (warning) => (isSimilar(warning) ? isLearned : !anyway);
  const sentence = ({ kind, label: other, probability }) => {
    const isElsewhere = kind === "repeated" && other !== label.normalize();
    const key = isElsewhere ? "repeatedElsewhere" : kind === "looks-like" && isLearned ? "stillTaken" : kind;
    return message(key, { label: other, percent: percent(probability ?? 0) });
  };
  return {
    warnings: warnings.filter(isLoud).map(sentence),
    notes: warnings.filter((warning) => isSimilar(warning) && !isLearned).map(sentence),
  };
}

function forgetWarning() {
  showError();
  tell([]);
}

async function learn(byKey) {
  forgetWarning();
  isRequested = true;
  showControls(store.state);
  const { label } = store.state, base = isBaseLabel(store.state) && $("replace").checked ? "replace" : "add";
  // A button that cannot be pressed has no focus; the next label is what comes next.
  if (byKey) $("label").focus();
  try {
    // Its shots that are on their way are learned, too.
    if (taking?.label === label) {
      isHeld = false;
      await taking.done;
    }
    const job = await (await call("POST", api("learn"), { label, base })).json();
    // Its events may have been faster.
    const { job: newest } = store.state;
    requested = { id: job.id, label };
    startAnew(store.state);
    if (!newest || !isSameOrLater(newest, job.id)) update({ job });
  } finally {
    isRequested = false;
    showControls(store.state);
  }
}

// Shots of the next thing must not go to the one that was just learned.
function startAnew({ job, label, shots }) {
  if (!requested) return;
  // The next change, of somebody else, may be shown before the shots are gone.
  requested.isDone ||= job?.id === requested.id && job.state === "done";
  if (!requested.isDone || shots.length) return;
  if (label === requested.label) chooseLabel("");
  requested = null;
}

function enableTaking(state) {
  $("shoot").disabled = isTakingEach || !canShoot(state);
  $("anyway").disabled = isTakingEach;
}

function showControls(state) {
  enableTaking(state);
  const isBase = isBaseLabel(state);
  $("replace").checked = isBase && (replaces.get(state.label) ?? isReplaced(state));
  $("replace-row").hidden = !isBase;
  $("learn").disabled = isRequested || !canLearn(state);
  $("first-steps").hidden = !isFirstTime(state);
  setText("hint", hints(state).map(({ key, values }) => message(key, values)).join(" "));
}

function showShots({ label, shots }) {
  const path = ({ id }) => `${shotsPath(label)}/${id}`;
  const shown = new Set(shots.map((shot) => api(path(shot))));
  releasePictures((other) => other.startsWith(api("shots/")) && !shown.has(other));
  redraw($("shots"), shots.map((shot, index) => {
    const number = index + 1, remove = (event) => removeShot(path(shot), index, isByKey(event));
    return element("li", {}, picture(api(path(shot)), message("shotName", { number })),
      element("button", { value: shot.id, textContent: "×", "aria-label": message("remove", { number }), on: remove }));
  }));
  enableChanges();
  showCount(shots.length);
  const elsewhere = shots.filter(({ id }) => !takenHere.has(id)).length;
  const isShared = elsewhere > 0 && elsewhere < shots.length;
  setText("elsewhere", isShared ? message("elsewhere", { count: elsewhere }) : "");
  showSufficiency(label, shots);
}

async function removeShot(path, index, byKey) {
  forgetWarning();
  await changeOnce("DELETE", path);
  if (!byKey || !isFocusLost()) return;
  // The shot that took its place, or the last one.
  const crosses = document.querySelectorAll("#shots button");
  (crosses[Math.min(index, crosses.length - 1)] ?? $("label")).focus();
}

// Of two quick presses, the second would change the shot, or the name, that took the place of the first.
async function changeOnce(method, path, body) {
  if (isChanging) return;
  isChanging = true;
  enableChanges();
  const doubleClick = sleep(DOUBLE_CLICK_MS);
  await change(method, path, body);
  await Promise.allSettled([refreshShots(), doubleClick]);
  isChanging = false;
  enableChanges();
}

function enableChanges() {
  document.querySelectorAll("#shots button, #waiting-list button").forEach((button) => { button.disabled = isChanging; });
}

// How many of the five that people are asked for there are: from then on, learning is what comes next.
function showCount(count) {
  const isEnough = count >= ENOUGH_SHOTS;
  setText("taken", isEnough ? message("shotCount", { count }) : message("takenOf", { count, most: ENOUGH_SHOTS }));
  $("taken-steps").replaceChildren(...Array.from({ length: ENOUGH_SHOTS }, (_, index) =>
    element("span", { className: index < count ? "done" : "" })));
  $("learn").classList.toggle("main", isEnough);
}

// Shots under other labels; pressing one goes on with it.
function showWaiting({ waiting, label }) {
  $("waiting").hidden = !waiting.length;
  redraw($("waiting-list"), waiting.map((other) => waitingItem(other, label)));
  enableChanges();
}

// Where another name was typed afterwards, its shots may have been meant.
function waitingItem({ label: other, shots: count }, label) {
  // The list is drawn anew.
  const keepFocus = () => $("label").focus();
  const choose = (event) => { chooseLabel(other); if (isByKey(event)) keepFocus(); };
  const goOn = element("button", { value: other, textContent: `${readable(other)}: ${message("shotCount", { count })}`, on: choose });
  if (!label) return element("li", {}, goOn);
  const rename = async (event) => {
    await changeOnce("PATCH", shotsPath(other), { label });
    if (isByKey(event) && isFocusLost()) keepFocus();
  };
  return element("li", {}, goOn, element("button", { value: `relabel ${other}`, textContent: message("relabel", { count, label }), on: rename }));
}
