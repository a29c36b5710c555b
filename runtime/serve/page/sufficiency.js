// Are these shots enough? How well they recognise each other, and what more would bring.
import { $, setText } from "./dom.js";
import { message, percent } from "./language.js";
import { get, shotsPath } from "./service.js";

const MOST_LABELS = 2;
let requests = 0;

export async function showSufficiency(label, shots) {
  const request = ++requests;
  // The shots may have been learned meanwhile, which is no error.
  const found = label && shots.length ? await get(`${shotsPath(label)}/sufficiency`, { quiet: true }).catch(() => null) : null;
  if (request !== requests) return;
  const missed = new Set((found?.left_out ?? []).filter((shot) => shot.taken_for !== null).map((shot) => shot.id));
  [...$("shots").children].forEach((item, index) => item.classList.toggle("missed", missed.has(shots[index]?.id)));
  setText("sufficiency", found ? sufficiencySentences(found).join(" ") : "");
}

export function sufficiencySentences({ shots, recognised, left_out: leftOut, expected }) {
  const sentences = leftOut.length ? [message("sufficiencyLeftOut", { recognised, shots })] : [];
  const labels = [...new Set(leftOut.map((shot) => shot.taken_for).filter((label) => label !== null))];
  for (const label of labels.slice(0, MOST_LABELS)) {
    const numbers = leftOut.flatMap((shot, index) => (shot.taken_for === label ? [index + 1] : []));
    const subject = numbers.length > 1 ? message("sufficiencyShots", { numbers: numbers.join(", ") })
      : message("sufficiencyShot", { number: numbers[0] });
    sentences.push(message("sufficiencyHelp", { numbers: subject, label }));
  }
  if (expected) {
    const { now, one_more: one, two_more: two } = expected;
    sentences.push(message("sufficiencyExpected", { now: percent(now), one: percent(one), two: percent(two) }));
  }
  return sentences;
}
