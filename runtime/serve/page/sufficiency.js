// Whether shots are enough: a verdict, and behind it how well they recognise each other and what more would bring.
import { $, setText } from "./dom.js";
import { message, percent } from "./language.js";
import { ENOUGH_SHOTS, classOf } from "./selectors.js";
import { beginRequest, get, shotsPath } from "./service.js";
import { store } from "./store.js";

const MOST_LABELS = 2;
// Fewer shots are not called enough.
const LEAST_SHOTS = 3;
// What two more shots must bring, as a share of new pictures, to be asked for.
const WORTH_TAKING = 0.03;

export async function showSufficiency(label, shots) {
  const isNewest = beginRequest("sufficiency");
  // The shots may have been learned meanwhile, which is no error.
  const found = label && shots.length ? await get(`${shotsPath(label)}/sufficiency`, { quiet: true }).catch(() => null) : null;
  if (!isNewest()) return;
  const missed = new Set((found?.left_out ?? []).filter((shot) => shot.taken_for !== null).map((shot) => shot.id));
  [...$("shots").children].forEach((item, index) => item.classList.toggle("missed", missed.has(shots[index]?.id)));
  const verdict = found && sufficiencyVerdict(found, classOf(label, store.state.classes)?.learned === true);
  $("sufficiency-row").hidden = !verdict;
  offerRemoval(verdict?.number);
  store.update({ hasVerdict: Boolean(verdict) });
  if (!verdict) return;
  $("verdict").classList.toggle("good", verdict.isEnough);
  setText("verdict", message(verdict.text, verdict));
  setText("sufficiency", sufficiencySentences(found).join(" "));
}

// Offers to remove the shot that does not fit, as the cross on its picture does.
function offerRemoval(number) {
  $("odd-row").hidden = !number;
  if (!number) return;
  $("odd-remove").textContent = message("remove", { number });
  $("odd-remove").onclick = () => $("shots").children[number - 1]?.querySelector("button").click();
}

// Whether to take more shots, and how many: there are few, the others take some for something else, or two more would
// bring much. One that alone is taken for something else may show something else.
export function sufficiencyVerdict({ shots: shotCount, left_out: leftOut, expected }, isLearned = false) {
  const missed = leftOut.filter((shot) => shot.taken_for !== null);
  if (missed.length === 1 && (isLearned || shotCount > LEAST_SHOTS)) {
    const number = leftOut.indexOf(missed[0]) + 1;
    return { isEnough: false, count: 2, number, label: missed[0].taken_for, text: "verdictOdd" };
  }
  const brings = expected ? expected.two_more - expected.now : 0;
  const isEnough = shotCount >= LEAST_SHOTS && !missed.length && brings < WORTH_TAKING;
  const count = isEnough ? 0 : Math.max(ENOUGH_SHOTS - shotCount, 2);
  return { isEnough, count, text: isEnough ? "verdictEnough" : "verdictMore" };
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
