// The label that a typed text stands for.
import { learnedClasses } from "./selectors.js";

// Invisible characters, which keyboards put around emoji, and this page around names that are written from the right;
// the service refuses them.
const UNSEEN = /[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff]/g;

// Joiners are kept between letters of scripts that join, and between emoji: spelling needs these. Older phones know no
// lookbehind.
const JOINER = /[\u200c\u200d]/;
const JOINED = /[\u0600-\u0dff\u2190-\u2bff\ufb50-\ufdff\ufe70-\ufefc\u{1f000}-\u{1faff}]/u;
const withoutLooseJoiners = (typed) => [...typed].filter((letter, at, all) =>
  !JOINER.test(letter) || [all[at - 1], all[at + 1]].every((beside) => JOINED.test(beside ?? ""))).join("");

// Browsers resolve "." and ".." in a URL, and the service refuses them.
export const labelOf = (typed) => withoutLooseJoiners(typed.replace(UNSEEN, "")).replace(/\s+/g, " ").trim().replace(/^\.{1,2}$/, "");

// Names that differ in capitals, or in underscores for spaces, are alike.
const plain = (name) => name.normalize().toLowerCase().replaceAll("_", " ");

// Those of some classes whose names hold what is typed.
export const classesNamed = (typed, classes) => classes.filter(({ label }) => plain(label).includes(plain(labelOf(typed))));

// As it is typed if that is known, else as it is known in other capitals or with underscores for spaces: of a learned
// class, of shots that wait (`waiting` lacks those of the chosen label), or of a base class.
export function knownLabelFor(typed, { classes, waiting, label: chosen, shots = [] }) {
  const label = labelOf(typed);
  const held = shots.length && chosen ? [{ label: chosen }, ...waiting] : waiting;
  const known = [...learnedClasses({ classes }), ...held, ...classes].map((one) => one.label);
  return known.includes(label.normalize()) ? label : known.find((name) => plain(name) === plain(label)) ?? label;
}
