// What is this? The answer to a picture, how sure it is, and why.
import { $, api, call, isolated, pause, percent, say } from "./common.js";
import { showWhy } from "./pictures.js";
import { files, frame, stream } from "./source.js";

const EVERY_MS = 250, SIDE = 480;

export async function look() {
  const picture = files[0] ?? (await frame(SIDE));
  if (!picture) return;
  const collect = stream && $("collect").checked;
  const path = api(`classify${collect ? "?inbox=true" : ""}`);
  // A camera's next picture is looked at in any case; a file that cannot be read is said.
  const sent = await call("POST", path, picture, !files.length).catch((error) => {
    if (files.length) showAnswer([]);
    throw error;
  });
  const { matches, known } = await sent.json();
  if (files.length && picture !== files[0]) return;
  if (stream || files.length) showAnswer(matches, known);
}

// A still answers for itself; of the camera, the moment of asking.
export async function why() {
  const picture = files[0] ?? (await frame(SIDE));
  if (!picture) return;
  showWhy((await (await call("POST", api("classify?why=true"), picture)).json()).why);
}

export function showAnswer(matches, known = true) {
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
  $("others").textContent = others.filter((other) => percent(other.probability) > 0).map((other) => `${isolated(other.label)} ${percent(other.probability)}\u00a0%`).join(" · ");
}

export async function watchCamera() {
  for (;;) {
    const busy = document.hidden || !stream;
    if (!busy) await look().catch(() => {});
    await pause(busy ? 300 : EVERY_MS);
  }
}
