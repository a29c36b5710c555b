// What is this? The answer to a picture, how sure it is, and why.
import { $, element, setText, sleep, small } from "./dom.js";
import { message, percent, readable } from "./language.js";
import { noPicture, storedPicture } from "./pictures.js";
import { api, call } from "./service.js";
import { frame, isPaused } from "./source.js";
import { NO_ANSWER, store } from "./store.js";

// Pause after each answer while the browser camera is watched, and between two checks of whether it is.
const EVERY_MS = 250, IDLE_MS = 300;
// Longer side of the pictures that are sent to be answered, in pixels.
const SIDE = 480;
// Longest wait for the answer to a camera's picture: a request that is lost on the way would hold up all others.
const ANSWER_MS = 15_000;
// The service, not a proxy, has too much to do; it answers the next picture.
const BUSY = [429, 503];
const MOST_ALTERNATIVES = 3;

export function startAnswer() {
  $("why-ask").onclick = () => toggleExplanation().catch(() => {});
  store.subscribe(["answer", "deviceChosen", "files", "language"], show);
  store.subscribe(["answer", "files"], dropExplanation);
  store.subscribe(["explanation", "language"], showExplanation);
  store.subscribe(["files"], ({ files }) => { if (files.length) classify().catch(() => {}); });
  // What is wrong with a file was said when it was chosen.
  store.subscribe(["classes"], ({ files }) => { if (files.length) classify({ quiet: true }).catch(() => {}); });
  watchCamera();
}

// The picture that is shown: the first file, or the browser camera's.
const picture = async () => store.state.files[0] ?? frame(SIDE);

async function classify({ quiet = !store.state.files.length } = {}) {
  const asked = await picture();
  if (!asked) return;
  const mayKeep = store.state.stream && store.state.collects;
  const path = api(`classify${mayKeep ? "?inbox=true" : ""}`);
  // The camera's next picture follows in any case; that a file cannot be read is shown. Where no answer comes, an old one
  // would be taken for it.
  const limitMs = asked.name ? undefined : ANSWER_MS;
  const isShown = ({ files, stream }) => (files.length ? asked === files[0] : !asked.name && stream && !isPaused(stream));
  try {
    const response = await call("POST", path, asked, { quiet, name: asked.name, limitMs });
    const { matches, set, known } = await response.json();
    if (isShown(store.state)) store.update({ answer: { matches, set, known } });
  } catch (error) {
    const isKept = !asked.name && BUSY.includes(error.status) && error.refusal?.code;
    if (isShown(store.state) && !isKept) store.update({ answer: NO_ANSWER });
    throw error;
  }
}

async function watchCamera() {
  for (;;) {
    const isWatched = store.state.stream && !document.hidden;
    if (isWatched) await classify().catch(() => {});
    await sleep(isWatched ? EVERY_MS : IDLE_MS);
  }
}

function show({ answer: { matches, set, known, empty }, deviceChosen, files }) {
  const isUnknown = matches.length > 0 && !known;
  // Disabled, not hidden: what stands below must not move.
  // The page has no picture of the device's camera as the device cuts it out.
  $("why-ask").disabled = !matches.length || (deviceChosen && !files.length);
  setText("why-ask", message(isUnknown ? "whyUnknown" : "why"));
  setText("why-title", message(isUnknown ? "whyUnknownTitle" : "whyTitle"));
  const best = isUnknown ? undefined : matches[0];
  setText("answer", isUnknown ? message("unknown") : best ? readable(best.label) : empty ? message("empty") : "–");
  $("provisional").hidden = !best?.provisional;
  setText("sure", best ? message(certainty(best.probability)) : "");
  $("sure-bar").style.width = `${best ? percent(Math.max(0, best.probability)) : 0}%`;
  setText("set", best ? alternatives(set) : "");
  $("others").replaceChildren(...(isUnknown ? [message("nearestKnown", matches[0])] : matches.slice(1).filter(isSeen).map(otherItem)));
}

// How sure an answer is, in a word; the bar says the rest.
export const certainty = (probability) => (probability >= 0.9 ? "sure" : probability >= 0.6 ? "probably" : "perhaps");

// "mug or cup", where one of a few is right; nothing where the answer is clear, or nothing is.
export const alternatives = (set) =>
  set?.length > 1 && set.length <= MOST_ALTERNATIVES ? set.map(readable).join(` ${message("or")} `) : "";

const isSeen = ({ probability }) => percent(probability) > 0;

// Another class that it may be, with a bar behind it that says how probable that is.
function otherItem({ label, probability }) {
  const share = percent(probability);
  const item = element("span", { className: "other", textContent: `${readable(label)} ${share}\u00a0%` });
  item.style.setProperty("--share", `${share}%`);
  return item;
}

async function toggleExplanation() {
  if (store.state.explanation) store.update({ explanation: null });
  else await explain();
}

// The label that was explained.
let explained;

async function explain() {
  const asked = await picture();
  if (!asked) return;
  const { why } = await (await call("POST", api("classify?why=true"), asked)).json();
  explained = store.state.answer.matches[0]?.label;
  store.update({ explanation: why });
}

// An explanation of the camera's picture stays as long as the answer that it explains.
function dropExplanation({ answer, files }) {
  if (answer.matches[0]?.label !== explained || files.length) store.update({ explanation: null });
}

function showExplanation({ explanation }) {
  $("why").hidden = !explanation;
  $("why-ask").setAttribute("aria-expanded", String(Boolean(explanation)));
  $("why-list").replaceChildren(...(explanation ?? []).map(({ label, similarity, shot, thumbnail }) =>
    element("li", {}, thumbnail ? storedPicture(label, { id: shot }) : noPicture(),
      small(message("alike", { label, percent: percent(Math.max(0, similarity)) })))));
  // Where there is little room, it begins below what is seen.
  $("why-list").firstElementChild?.scrollIntoView({ block: "nearest" });
}
