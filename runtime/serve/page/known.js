// What it knows: classes, the dial, the history.
import { chooseDevice, findDevice } from "./camera.js";
import { $, DOUBLE_CLICK_MS, api, ask, call, change, fill, get, isolated, make, pause, percent, say, words } from "./common.js";
import { isRunning, showJob, shown } from "./jobs.js";
import { forgetStored, thumbnails } from "./pictures.js";
import { files, showSource, stream } from "./source.js";

export let known = [];
export async function readKnown() {
  const [status, { classes }, { entries }] = await Promise.all([get("status"), get("classes"), get("history")]);
  known = classes;
  forgetStored();
  $("bundle").textContent = status.bundle;
  const problem = [status.problem ? say("problem", status) : "", ...status.problems].filter(Boolean).join(" ");
  // What has not changed is not read out again.
  if ($("problem").textContent !== problem) $("problem").textContent = problem;
  if (findDevice(status.camera) && !stream && !files.length) { chooseDevice(true); showSource(); }
  const learned = classes.filter((known) => known.learned), base = classes.filter((known) => !known.learned);
  $("counts").textContent = say("counts", { learned: learned.length, base: base.length, free: status.free_targets });
  $("known").replaceChildren(...learned.map((known) => make("option", { value: known.label })));
  $("learned").replaceChildren(...learned.map((known) => make("li", {},
    make("span", {}, isolated(known.label), " ", make("span", { className: "small", textContent: say("shotCount", { count: known.shots }) })),
    make("button", { textContent: say("rename"), "aria-label": say("renameOf", known), on: () => rename(known.label) }),
    make("button", { textContent: say("forget"), "aria-label": say("forgetOf", known), on: () => forget(known.label) }),
    thumbnails(known))));
  if (shown?.state === "done") showJob(shown);
  $("base-title").textContent = say("baseTitle", { count: base.length });
  $("base").textContent = base.map((known) => isolated(known.label)).join(", ");
  showDial(status);
  if (status.jobs.length) showJob(status.jobs[0]);
  $("history").replaceChildren(...entries.toReversed().map((entry, index) => showEntry(entry, index === 0)));
  last = entries.at(-1)?.id;
  // Taking back what took something back brings that back.
  $("undo").textContent = say(entries.at(-1)?.verb === "undo" ? "redo" : "undo");
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
let undoable = false, undoing = false, last;
function showUndo(able) {
  undoable = able;
  $("undo").disabled = undoing || !undoable;
  document.querySelectorAll("#history button").forEach((button) => { button.disabled = undoing; });
}

// Of two who see the same last change and take it back, the second takes back nothing.
export const undoLast = (event) => undo({ last }, event);

async function undo(to, { detail }) {
  if (undoing) return;
  undoing = true;
  showUndo(undoable);
  $("error").textContent = "";
  const pressed = pause(DOUBLE_CLICK_MS);
  try {
    let job = await (await call("POST", api("undo"), to)).json();
    while (isRunning(job)) {
      await pause(100);
      job = await get(`jobs/${job.id}`, true);
    }
  } catch { /* It was told. */ }
  await Promise.allSettled([readKnown(), pressed]);
  undoing = false;
  showUndo(undoable);
  if (detail === 0) $("undo").focus();
}

function showEntry(entry, present) {
  const when = entry.seconds_since_1970
    ? new Date(1000 * entry.seconds_since_1970).toLocaleString(document.documentElement.lang, { dateStyle: "short", timeStyle: "short" }) : "";
  const what = fill(words.past[entry.verb] ?? entry.verb, { to: entry.to });
  const item = make("li", {}, make("span", {}, `${what} ${entry.labels.map(isolated).join(" → ")}`),
    make("span", { className: "small", textContent: when ? `${entry.entry} · ${when}` : `${entry.entry}` }));
  if (!present) {
    item.append(make("button", { textContent: say("back"), "aria-label": say("backOf", entry),
      on: (event) => undo({ entry: entry.id }, event) }));
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
