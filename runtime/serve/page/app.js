import { chooseDevice, device, findDevice, hearDevice, showNothing, startDevice } from "./camera.js";
import { $, api, ask, call, change, fill, get, make, of, percent, say, speak, words } from "./common.js";
import { showEnough } from "./enough.js";
import { readInbox } from "./inbox.js";
import { forgetStored, showWhy, sideBySide, thumbnails } from "./pictures.js";

const SHOT_EVERY_MS = 450, LOOK_EVERY_MS = 250, LOOK_SIDE = 480, SHOT_SIDE = 1280, ENOUGH = 5;

// ---- pictures: from the camera, or files

let stream = null, files = [];
const canvas = document.createElement("canvas");

function frame(side) {
  const { videoWidth: width, videoHeight: height } = $("video");
  if (!stream || !width) return Promise.resolve(null);
  const scale = Math.min(1, side / Math.max(width, height));
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.getContext("2d").drawImage($("video"), 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
}

function stopCamera() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = $("video").srcObject = null;
}

const hasSource = () => Boolean(stream || files.length || device.chosen);

async function toggleCamera() {
  $("camera-error").textContent = "";
  if (stream) stopCamera();
  else if (!navigator.mediaDevices) $("camera-error").textContent = say("cameraInsecure");
  else {
    try {
      const wanted = { facingMode: "environment", width: { ideal: 1280 }, height: { ideal: 960 } };
      stream = await navigator.mediaDevices.getUserMedia({ video: wanted, audio: false });
      stream.getVideoTracks()[0].addEventListener("ended", () => { stopCamera(); showSource(); });
      $("video").srcObject = stream;
      await $("video").play();
      files = [];
      chooseDevice(false);
    } catch (error) {
      stopCamera();
      $("camera-error").textContent = say("cameraFailed", { reason: error.message });
    }
  }
  showSource();
}

function choose() {
  files = [...$("file").files];
  if (files.length) { stopCamera(); chooseDevice(false); }
  showSource();
}

function showSource() {
  $("video").hidden = !stream;
  $("still").hidden = !files.length;
  $("square").hidden = !hasSource();
  showNothing();
  $("camera").hidden = $("collect-row").hidden = device.chosen;
  if ($("still").src) URL.revokeObjectURL($("still").src);
  if (files.length) $("still").src = URL.createObjectURL(files[0]);
  else $("still").removeAttribute("src");
  $("still").alt = $("live").alt = say("picture");
  $("camera").textContent = say(stream ? "cameraStop" : "camera");
  $("shoot").textContent = say(files.length ? "shootFiles" : "shoot");
  if (!hasSource()) showAnswer([]);
  if (files.length) look().catch(() => {});
  showHint();
}

// ---- what is this?

async function look() {
  const picture = files[0] ?? (await frame(LOOK_SIDE));
  if (!picture) return;
  const collect = stream && $("collect").checked;
  const { matches, known } = await (await call("POST", api(`classify${collect ? "?inbox=true" : ""}`), picture, true)).json();
  if (stream || files.length) showAnswer(matches, known);
}

// A still answers for itself; of the camera, the moment of asking.
async function why() {
  const picture = files[0] ?? (await frame(LOOK_SIDE));
  if (!picture) return;
  showWhy((await (await call("POST", api("classify?why=true"), picture)).json()).why);
}

function showAnswer(matches, known = true) {
  $("why-ask").hidden = !matches.length;
  if (!matches.length || files.length) showWhy(null);
  if (matches.length && !known) {
    $("answer").textContent = say("unknown");
    $("provisional").hidden = true;
    $("sure").textContent = "";
    $("sure-bar").style.width = "0";
    $("others").textContent = say("nearestKnown", { label: matches[0].label, percent: percent(matches[0].probability) });
    return;
  }
  const [best, ...others] = matches;
  $("answer").textContent = best?.label ?? "–";
  $("provisional").hidden = !best?.provisional;
  $("sure").textContent = best ? say("sure", { percent: percent(best.probability) }) : "";
  $("sure-bar").style.width = `${best ? percent(Math.max(0, best.probability)) : 0}%`;
  $("others").textContent = others.filter((other) => percent(other.probability) > 0).map((other) => `${other.label} ${percent(other.probability)}\u00a0%`).join(" · ");
}

async function watchCamera() {
  for (;;) {
    const busy = document.hidden || !stream;
    if (!busy) await look().catch(() => {});
    await new Promise((later) => setTimeout(later, busy ? 300 : LOOK_EVERY_MS));
  }
}

// ---- shots

let holding = false, shots = [], refused = null;
const label = () => $("label").value.trim();

function showHint() {
  const ready = label() && hasSource();
  $("shoot").disabled = !ready;
  $("learn").disabled = !label() || !shots.length || (isRunning(shown) && shown.label === label().normalize());
  const key = !label() ? "hintLabel" : !shots.length ? (ready ? "hintFirst" : "hintSource") : shots.length < ENOUGH ? "hintMore" : "hintEnough";
  const there = known.find((one) => one.label === label().normalize());
  const added = there ? ` ${say(there.learned ? "hintLearned" : "hintBase", there)}` : "";
  $("hint").textContent = say(key, { count: shots.length }) + added;
}

function forgetWarning() {
  $("error").textContent = "";
  refused = null;
  $("shot-warning").textContent = "";
  $("anyway-row").hidden = true;
}

// A picture is a file, or a frame of the service's own camera.
async function shoot(picture, anyway = false) {
  const asked = picture instanceof Blob ? call("POST", `${of(label())}${anyway ? "?anyway=true" : ""}`, picture)
    : call("POST", api("camera/shot"), { label: label(), anyway, ...picture });
  const sent = await asked.catch(() => null);
  if (!sent) return;
  const { accepted, warnings, frame } = await sent.json();
  refused = accepted ? null : picture instanceof Blob ? picture : { frame };
  const sentences = warnings.filter((warning) => !anyway || warning.kind === "looks-like")
    .map((warning) => say(warning.kind, { label: warning.label, percent: percent(warning.probability ?? 0) }));
  $("shot-warning").textContent = sentences.join(" ");
  $("anyway-row").hidden = accepted;
}

async function hold() {
  if (holding || $("shoot").disabled) return;
  holding = true;
  $("error").textContent = "";
  if (files.length) {
    for (const file of files) await shoot(file);
    holding = false;
    return;
  }
  do {
    const picture = device.chosen ? {} : await frame(SHOT_SIDE);
    if (picture) await shoot(picture);
    await new Promise((later) => setTimeout(later, SHOT_EVERY_MS));
  } while (holding && (stream || device.chosen));
  holding = false;
}

async function learn() {
  forgetWarning();
  $("learn").disabled = true;
  const job = await (await call("POST", api("learn"), { label: label() })).json();
  // Its events may have been faster.
  if (!(shown?.id >= job.id)) showJob(job);
}

let drawn = [];
async function readShots() {
  const of_label = label();
  const list = of_label ? (await get(`shots/${encodeURIComponent(of_label)}`, true).catch(() => ({ shots: [] }))).shots : [];
  if (of_label !== label()) return;
  shots = list;
  const items = await Promise.all(shots.map(async ({ id }, index) => {
    const picture = await call("GET", `${of(of_label)}/${id}`, undefined, true).then((sent) => sent.blob()).catch(() => null);
    const source = picture ? URL.createObjectURL(picture) : "";
    const remove = () => change("DELETE", `shots/${encodeURIComponent(of_label)}/${id}`);
    return make("li", {}, make("img", { src: source, alt: say("shotName", { number: index + 1 }) }),
      make("button", { textContent: "×", "aria-label": say("remove", { number: index + 1 }), on: remove }));
  }));
  if (of_label !== label()) return;
  drawn.forEach((item) => URL.revokeObjectURL(item.firstChild.src));
  drawn = items;
  $("shots").replaceChildren(...items);
  showHint();
  showEnough(of_label, shots);
}

// ---- what it knows

let known = [];
async function readKnown() {
  const [status, { classes }, { entries }] = await Promise.all([get("status"), get("classes"), get("history")]);
  known = classes;
  forgetStored();
  $("bundle").textContent = status.bundle;
  const problem = status.problem ? say("problem", status) : "";
  // What has not changed is not read out again.
  if ($("problem").textContent !== problem) $("problem").textContent = problem;
  if (findDevice(status.camera) && !stream && !files.length) { chooseDevice(true); showSource(); }
  const learned = classes.filter((known) => known.learned), base = classes.filter((known) => !known.learned);
  $("counts").textContent = say("counts", { learned: learned.length, base: base.length, free: status.free_targets });
  $("known").replaceChildren(...learned.map((known) => make("option", { value: known.label })));
  $("learned").replaceChildren(...learned.map((known) => make("li", {},
    make("span", {}, known.label, " ", make("span", { className: "small", textContent: say("shotCount", { count: known.shots }) })),
    make("button", { textContent: say("rename"), "aria-label": say("renameOf", known), on: () => rename(known.label) }),
    make("button", { textContent: say("forget"), "aria-label": say("forgetOf", known), on: () => forget(known.label) }),
    thumbnails(known))));
  if (shown?.state === "done") showJob(shown);
  $("base-title").textContent = say("baseTitle", { count: base.length });
  $("base").textContent = base.map((known) => known.label).join(", ");
  showDial(status);
  if (status.jobs.length) showJob(status.jobs[0]);
  $("history").replaceChildren(...entries.toReversed().map((entry, index) => showEntry(entry, index === 0)));
  showUndo(status.changes > 0);
}

function showDial({ balance, balances, expected }) {
  $("dial").hidden = !balance;
  $("expected").textContent = expected?.new > 0
    ? say("expected", { known: percent(expected.known), new: percent(expected.new) }) : "";
  $("dial-choices").replaceChildren(...balances.map((name) => {
    const choice = make("input", { type: "radio", name: "balance", value: name, checked: name === balance });
    choice.addEventListener("change", () => change("POST", "balance", { balance: name }));
    return make("label", {}, choice, say(name));
  }));
}

// Taking back is asked for once at a time: of two quick presses the second would take back what nobody meant.
let undoable = false, undoing = false;
function showUndo(able) {
  undoable = able;
  $("undo").disabled = undoing || !undoable;
  document.querySelectorAll("#history button").forEach((button) => { button.disabled = undoing; });
}

async function undo(to) {
  if (undoing) return;
  undoing = true;
  showUndo(undoable);
  $("error").textContent = "";
  try {
    let job = await (await call("POST", api("undo"), to)).json();
    while (isRunning(job)) {
      await new Promise((later) => setTimeout(later, 100));
      job = await get(`jobs/${job.id}`, true);
    }
    await readKnown();
  } catch { /* It was told. */ }
  undoing = false;
  showUndo(undoable);
}

function showEntry(entry, present) {
  const when = entry.seconds_since_1970
    ? new Date(1000 * entry.seconds_since_1970).toLocaleString(document.documentElement.lang, { dateStyle: "short", timeStyle: "short" }) : "";
  const what = fill(words.past[entry.verb] ?? entry.verb, { to: entry.to });
  const item = make("li", {}, make("span", {}, `${what} ${entry.labels.join(" → ")}`),
    make("span", { className: "small", textContent: [entry.entry, when].filter(Boolean).join(" · ") }));
  if (!present) {
    item.append(make("button", { textContent: say("back"), "aria-label": say("backOf", entry),
      on: () => undo({ entry: entry.entry }) }));
  }
  return item;
}

async function rename(from) {
  const to = await ask(say("renameAsk", { label: from }), from);
  if (to && to.trim() !== from) await change("PATCH", `classes/${encodeURIComponent(from)}`, { label: to.trim() });
}

async function forget(name) {
  if (await ask(say("forgetAsk", { label: name }))) await change("DELETE", `classes/${encodeURIComponent(name)}`);
}

// ---- changes, as they are made

let shown = null;
const isRunning = (job) => job?.state === "queued" || job?.state === "running";
function showJob(job) {
  shown = job;
  const running = isRunning(job);
  showHint();
  $("job").hidden = !running;
  if (running) {
    const verb = `${words.verbs[job.verb] ?? job.verb}${job.label ? ` ${say("quoted", job)}` : ""}`;
    $("job-text").textContent = say(job.state, { verb });
    $("job-bar").value = job.progress ?? 0;
    $("report").replaceChildren();
    return;
  }
  $("report").replaceChildren(...(job.state === "failed" ? [say("failed", job)] : report(job)));
}

function report({ report, warning }) {
  const lines = [];
  for (const known of report?.new ?? []) lines.push(say("learnedNew", { label: known.label, percent: percent(known.after) }));
  const shares = ({ before, after }) => ({ before: percent(before), after: percent(after) });
  if (report?.known) lines.push(say("kept", shares(report.known)));
  for (const lost of (report?.lost ?? []).slice(0, 3)) lines.push(say("lost", { label: lost.label, ...shares(lost) }));
  for (const { label, taken_for: other, share } of (report?.confusions ?? []).slice(0, 3)) {
    lines.push(say("confused", { label, other, percent: percent(share) }));
  }
  if (warning) lines.push(warning);
  const list = make("ul", {}, ...lines.map((line) => make("li", { textContent: line })));
  const confused = (report?.confusions ?? []).slice(0, 3).map(({ label, taken_for: other }) =>
    sideBySide([label, other], known, say("sideBySide", { label, other })));
  const fresh = (report?.new ?? []).slice(0, 3).map(({ label }) => sideBySide([label], known, say("newClass", { label })));
  return [make("p", { textContent: say("done") }), list, ...(confused.length ? confused : fresh)];
}

// EventSource cannot send the token, so the stream is read by hand.
async function listen() {
  for (let lost = null; ;) {
    try {
      const response = await call("GET", api("events"), undefined, true);
      $("connection").textContent = say("connected");
      await Promise.all([readKnown(), readShots(), readInbox()]);
      if (lost) await resume(lost);
      lost = null;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        parts.forEach(hear);
      }
    } catch { /* It goes on below. */ }
    lost ??= { label: label(), count: shots.length };
    $("connection").textContent = say("lostConnection");
    // An old answer would be taken for a new one.
    showAnswer([]);
    await new Promise((later) => setTimeout(later, 2000));
  }
}

// What came of what was on its way when the connection was lost.
async function resume({ label: of_label, count }) {
  if (files.length) look().catch(() => {});
  let gone = of_label === label() && count && !shots.length;
  if (isRunning(shown)) {
    const now = await get(`jobs/${shown.id}`, true).catch(() => null);
    if (now) { showJob(now); return; }
    $("job").hidden = gone = true;
    shown = null;
  }
  if (gone) $("error").textContent = say("startedAnew");
}

function hear(event) {
  const kind = /^event: ?(.*)$/m.exec(event)?.[1], data = /^data: ?(.*)$/m.exec(event)?.[1];
  if (kind === "live") hearDevice(JSON.parse(data));
  if (kind === "job") showJob(JSON.parse(data));
  if (kind === "changed") { readKnown().catch(() => {}); if (files.length) look().catch(() => {}); }
  if (kind === "changed" || kind === "shots") readShots();
  if (kind === "inbox") readInbox().catch(() => {});
}

// ---- start

function start() {
  speak(localStorage.getItem("language") ?? (navigator.language.startsWith("de") ? "de" : "en"));
  $("language").onchange = () => {
    localStorage.setItem("language", $("language").value);
    speak($("language").value);
    showSource();
    forgetWarning();
    if (shown) showJob(shown);
    Promise.all([readKnown(), readShots(), readInbox()]).catch(() => {});
  };
  $("camera").onclick = toggleCamera;
  $("file").onchange = choose;
  $("why-ask").onclick = () => why().catch(() => {});
  $("collect").checked = localStorage.getItem("collect") !== "no";
  $("collect").onchange = () => localStorage.setItem("collect", $("collect").checked ? "yes" : "no");
  $("label").oninput = () => { forgetWarning(); showHint(); readShots(); };
  const release = () => { holding = false; };
  $("shoot").onpointerdown = hold;
  $("shoot").oncontextmenu = (event) => event.preventDefault();
  $("shoot").onkeydown = (event) => { if (!event.repeat && (event.key === " " || event.key === "Enter")) hold(); };
  ["pointerup", "pointercancel", "keyup", "blur"].forEach((name) => window.addEventListener(name, release));
  // Screen readers press without holding.
  $("shoot").onclick = (event) => { if (event.detail === 0 && !holding) { hold(); release(); } };
  $("anyway").onclick = () => refused && shoot(refused, true);
  $("learn").onclick = () => learn().catch(() => {}).finally(showHint);
  $("undo").onclick = () => undo({});
  startDevice((value) => { if (value === "device") { stopCamera(); files = []; } showSource(); }, showAnswer);
  showSource();
  watchCamera();
  listen();
}

start();
