// Changes as they are made, and what they changed.
import { $, make, percent, say, words } from "./common.js";
import { known } from "./known.js";
import { sideBySide } from "./pictures.js";
import { showHint } from "./shots.js";

export let shown = null;
export const isRunning = (job) => job?.state === "queued" || job?.state === "running";
export function showJob(job) {
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
  // Where the thread broke off, nobody may know whether it was saved.
  const failed = job.changed === null ? "uncertain" : "failed";
  $("report").replaceChildren(...(job.state === "failed" ? [say(failed, job)] : report(job)));
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

// Whether a job is that one, or was asked for after it; of one run of the service, ids count up.
export function follows(job, id) {
  const [[run, count], [other, before]] = [job.id, id].map((text) => text.split("-"));
  return run === other && Number(count) >= Number(before);
}

export function forgetJob() {
  $("job").hidden = true;
  shown = null;
}
