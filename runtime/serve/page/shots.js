// Shots that are not learned yet: taken, shown, learned.
import { device } from "./camera.js";
import { $, api, call, change, get, isolated, make, of, onRelease, pause, percent, pressesKey, say } from "./common.js";
import { showEnough } from "./enough.js";
import { follows, isRunning, showJob, shown } from "./jobs.js";
import { known } from "./known.js";
import { files, frame, hasSource, stream } from "./source.js";

const EVERY_MS = 450, SIDE = 1280, ENOUGH = 5;

export let shots = [];
let holding = false, taking = false, refused = null;
// Browsers resolve these two in a URL, and the service refuses them.
export const label = () => $("label").value.trim().replace(/^\.{1,2}$/, "");

export function showHint() {
  const ready = label() && hasSource();
  $("shoot").disabled = !ready;
  $("learn").disabled = !label() || !shots.length || (isRunning(shown) && shown.label === label().normalize());
  const key = !label() ? "hintLabel" : !shots.length ? (ready ? "hintFirst" : "hintSource") : shots.length < ENOUGH ? "hintMore" : "hintEnough";
  const there = known.find((one) => one.label === label().normalize());
  const added = there ? ` ${say(there.learned ? "hintLearned" : "hintBase", there)}` : "";
  $("hint").textContent = say(key, { count: shots.length }) + added;
}

export function forgetWarning() {
  $("error").textContent = "";
  refused = null;
  $("shot-warning").textContent = "";
  $("anyway-row").hidden = true;
}

// A picture is a file, or a frame of the service's own camera.
async function shoot(picture, name, anyway = false) {
  const asked = picture instanceof Blob ? call("POST", `${of(name)}${anyway ? "?anyway=true" : ""}`, picture)
    : call("POST", api("camera/shot"), { label: name, anyway, ...picture });
  const sent = await asked.catch(() => null);
  if (!sent) return;
  const { accepted, warnings, frame } = await sent.json();
  refused = accepted ? null : picture instanceof Blob ? picture : { frame };
  const sentences = warnings.filter((warning) => !anyway || warning.kind === "looks-like")
    .map(({ kind, label: other, probability }) =>
      say(kind === "repeated" && other !== name.normalize() ? "repeatedElsewhere" : kind, { label: other, percent: percent(probability ?? 0) }));
  $("shot-warning").textContent = sentences.join(" ");
  $("anyway-row").hidden = accepted;
}

async function hold() {
  if (taking || $("shoot").disabled) return;
  // Shots belong to the name that stood there when they were begun.
  const name = label();
  holding = taking = true;
  $("error").textContent = "";
  if (files.length) {
    for (const file of files) await shoot(file, name);
  } else {
    do {
      const picture = device.chosen ? {} : await frame(SIDE);
      if (picture) await shoot(picture, name);
      await pause(EVERY_MS);
    } while (holding && (stream || device.chosen));
  }
  holding = taking = false;
}

async function learn({ detail }) {
  forgetWarning();
  $("learn").disabled = true;
  // A key that cannot be pressed has no focus; whoever came there by keyboard goes on at the next name.
  if (detail === 0) $("label").focus();
  const job = await (await call("POST", api("learn"), { label: label() })).json();
  // Its events may have been faster.
  if (!shown || !follows(shown, job.id)) showJob(job);
}

let drawn = [];
export async function readShots() {
  const of_label = label();
  const [list, { labels }] = await Promise.all([
    of_label ? get(`shots/${encodeURIComponent(of_label)}`, true).then((held) => held.shots, () => []) : [],
    get("shots", true),
  ]);
  if (of_label !== label()) return;
  shots = list;
  showWaiting(labels.filter((other) => other.label !== of_label.normalize()));
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

// This is what is taught and learned next.
export function goOnWith(name) {
  $("label").value = name;
  $("label").dispatchEvent(new Event("input"));
}

// Shots under other names; pressing one goes on with it.
function showWaiting(others) {
  $("waiting").hidden = !others.length;
  $("waiting-list").replaceChildren(...others.map((other) => make("li", {},
    make("button", { textContent: `${isolated(other.label)}: ${say("shotCount", { count: other.shots })}`, on: () => goOnWith(other.label) }))));
}

export function startShots() {
  $("label").oninput = () => { forgetWarning(); showHint(); readShots().catch(() => {}); };
  const release = () => { holding = false; };
  $("shoot").onpointerdown = hold;
  $("shoot").oncontextmenu = (event) => event.preventDefault();
  let byKey = false;
  $("shoot").onkeydown = (event) => {
    if (event.repeat || !pressesKey(event)) return;
    byKey = true;
    hold();
  };
  onRelease(release);
  // Screen readers press without holding; the click that a key gives comes after it.
  $("shoot").onclick = (event) => {
    if (event.detail === 0 && !byKey) { hold(); release(); }
    byKey = false;
  };
  $("anyway").onclick = () => refused && shoot(refused, label(), true);
  $("learn").onclick = (event) => learn(event).catch(() => {}).finally(showHint);
}
