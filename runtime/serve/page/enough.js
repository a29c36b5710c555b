// Is this enough? How well the shots recognise each other, and what more would bring.
import { $, get, percent, say } from "./common.js";

let asked = 0;

export async function showEnough(label, shots) {
  const now = ++asked;
  // The shots may have been learned meanwhile, which is no error.
  const told = label && shots.length ? await get(`shots/${encodeURIComponent(label)}/enough`, true).catch(() => null) : null;
  if (now !== asked) return;
  const missed = new Set((told?.left_out ?? []).filter((shot) => shot.taken_for !== null).map((shot) => shot.id));
  document.querySelectorAll("#shots li").forEach((item, index) => {
    item.classList.toggle("missed", missed.has(shots[index]?.id));
  });
  $("enough").textContent = told ? sentences(told).join(" ") : "";
}

function sentences({ shots, recognised, left_out: leftOut, expected }) {
  const said = [];
  if (leftOut.length) said.push(say("enoughLeftOut", { recognised, shots }));
  const others = [...new Set(leftOut.map((shot) => shot.taken_for).filter((other) => other !== null))];
  for (const label of others.slice(0, 2)) {
    const numbers = leftOut.flatMap((shot, index) => (shot.taken_for === label ? [index + 1] : []));
    const who = numbers.length > 1 ? say("enoughShots", { numbers: numbers.join(", ") }) : say("enoughShot", { number: numbers[0] });
    said.push(say("enoughHelp", { numbers: who, label }));
  }
  if (expected) {
    const { now, one_more: one, two_more: two } = expected;
    said.push(say("enoughExpected", { now: percent(now), one: percent(one), two: percent(two) }));
  }
  return said;
}
