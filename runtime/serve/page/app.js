// The page: what the service tells is shown, and what people press is done.
import { look, showAnswer, watchCamera, why } from "./answer.js";
import { hearDevice, startDevice } from "./camera.js";
import { $, api, call, get, pause, say, speak } from "./common.js";
import { readInbox } from "./inbox.js";
import { forgetJob, isRunning, showJob, shown } from "./jobs.js";
import { readKnown, undoLast } from "./known.js";
import { forgetWarning, label, readShots, shots, startShots } from "./shots.js";
import { choose, files, leaveToDevice, showSource, toggleCamera } from "./source.js";

// ---- what the service tells

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
    await pause(2000);
  }
}

// What came of what was on its way when the connection was lost.
async function resume({ label: of_label, count }) {
  if (files.length) look().catch(() => {});
  let gone = of_label === label() && count && !shots.length;
  if (isRunning(shown)) {
    const now = await get(`jobs/${shown.id}`, true).catch(() => null);
    if (now) { showJob(now); return; }
    gone = true;
    forgetJob();
  }
  if (gone) $("error").textContent = say("startedAnew");
}

function hear(event) {
  const kind = /^event: ?(.*)$/m.exec(event)?.[1], data = /^data: ?(.*)$/m.exec(event)?.[1];
  if (kind === "live") hearDevice(JSON.parse(data));
  if (kind === "job") showJob(JSON.parse(data));
  if (kind === "changed") { readKnown().catch(() => {}); if (files.length) look().catch(() => {}); }
  if (kind === "changed" || kind === "shots") readShots().catch(() => {});
  if (kind === "inbox") readInbox().catch(() => {});
  // What was shown of a class that was purged.
  if (kind === "purged" && JSON.parse(data).jobs.includes(shown?.id)) { forgetJob(); $("report").replaceChildren(); }
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
  startShots();
  $("undo").onclick = undoLast;
  startDevice((value) => { if (value === "device") leaveToDevice(); showSource(); }, showAnswer);
  showSource();
  watchCamera();
  listen();
}

start();
