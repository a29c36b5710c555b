// What was done, and undoing it.
import { $, DOUBLE_CLICK_MS, element, isByKey, showError, sleep, small } from "./dom.js";
import { dateTime, isolate, message, term } from "./language.js";
import { refreshClasses } from "./refresh.js";
import { isUnfinished } from "./selectors.js";
import { api, call, get } from "./service.js";
import { store } from "./store.js";

const POLL_MS = 100;

// Of two quick presses, the second would undo what nobody meant.
let isUndoing = false;

export function startHistory() {
  // Of two who see the same last change and undo it, the second undoes nothing.
  $("undo").onclick = (event) => undo({ last: store.state.history.at(-1)?.id }, isByKey(event));
  store.subscribe(["history", "status", "language"], show);
}

function show({ history, language }) {
  $("history").replaceChildren(...history.toReversed().map((entry, index) => entryItem(entry, index === 0, language)));
  // Undoing what was an undo brings the undone back.
  $("undo").textContent = message(history.at(-1)?.verb === "undo" ? "redo" : "undo");
  enable();
}

function entryItem(entry, isPresent, language) {
  const change = term("past", entry.verb, { to: entry.to });
  const time = entry.seconds_since_1970 ? ` · ${dateTime(entry.seconds_since_1970, language)}` : "";
  const item = element("li", {}, element("span", {}, `${change} ${entry.labels.map(isolate).join(" → ")}`),
    small(`${entry.entry}${time}`));
  if (!isPresent) {
    item.append(element("button", { textContent: message("back"), "aria-label": message("backOf", entry),
      on: (event) => undo({ entry: entry.id }, isByKey(event)) }));
  }
  return item;
}

function enable() {
  $("undo").disabled = isUndoing || !(store.state.status?.changes > 0);
  document.querySelectorAll("#history button").forEach((button) => { button.disabled = isUndoing; });
}

async function undo(target, byKey) {
  if (isUndoing) return;
  isUndoing = true;
  enable();
  showError();
  const doubleClick = sleep(DOUBLE_CLICK_MS);
  try {
    let job = await (await call("POST", api("undo"), target)).json();
    while (isUnfinished(job)) {
      await sleep(POLL_MS);
      job = await get(`jobs/${job.id}`, { quiet: true });
    }
  } catch { /* The error is shown. */ }
  await Promise.allSettled([refreshClasses(), doubleClick]);
  isUndoing = false;
  enable();
  if (byKey) $("undo").focus();
}
