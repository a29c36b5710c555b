// Texts of the page in the chosen language, with what is filled in.
import { texts } from "./texts.js";

let words = texts.en, chosen = "en";

export const currentLanguage = () => chosen;

export const percent = (share) => Math.round(100 * share);

// Keeps a label that is written from the right from turning around what stands beside it.
export const isolate = (label) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(label) ? `\u2068${label}\u2069` : label);

// A label as people read it: many of a bundle's have underscores in place of spaces. Requests name it as it is.
export const readable = (label) => isolate(label.replaceAll("_", " "));

// Which values of texts are labels.
const LABELS = ["label", "other"];

// Fills in {values}, and keeps a number and its % on one line.
export const fill = (template, values = {}) =>
  template.replace(/(\d|\}) %/g, "$1\u00a0%").replace(/\{(\w+)\}/g, (all, key) =>
    (LABELS.includes(key) && values[key] ? readable(values[key]) : isolate(values[key] ?? all)));

// The text of a key. Where `count` is 1, a key of its own may hold the singular.
export const message = (key, values) =>
  fill((values?.count === 1 && words[`${key}One`]) || (words[key] ?? key), values);

// A sentence about a file, with its name in front of it.
export const ofFile = (name, sentence) => (name ? `${isolate(name)}: ${sentence}` : sentence);

// A word of a group such as the verbs of jobs; what the page does not know yet stays as the service names it.
export const term = (group, key, values) => fill(words[group][key] ?? key, values);

// The page's language as it is written where the user lives: dates differ between Britain and the United States.
export function localeOf(language, wanted = navigator.languages) {
  const locales = wanted.filter(isLocale);
  const region = locales.map((one) => new Intl.Locale(one).region).find(Boolean);
  return locales.find((one) => one.startsWith(`${language}-`)) ?? (region ? `${language}-${region}` : language);
}

// Browsers pass on what the system names, such as "en-US@posix", which dates cannot be written by.
function isLocale(name) {
  try {
    return Boolean(new Intl.Locale(name));
  } catch {
    return false;
  }
}

// A time in seconds since 1970, as the language writes it there.
export const dateTime = (seconds, language, timeStyle = "short") =>
  new Date(1000 * seconds).toLocaleString(localeOf(language), { dateStyle: "short", timeStyle });

// Chooses the language, English if there is no such, and returns it.
export function setLanguage(language) {
  const found = texts[language] ? language : "en";
  words = texts[found];
  chosen = found;
  return found;
}
