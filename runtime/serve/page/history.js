// What was done, and undoing it.
import { ask } from "./dialog.js";
import { $, DOUBLE_CLICK_MS, element, isByKey, redraw, showError, sleep, small } from "./dom.js";
import { dateTime, message, readable, term } from "./language.js";
import { refreshClasses } from "./refresh.js";
import { historyLines, isUnfinished } from "./selectors.js";
import { api, call, get } from "./service.js";
import { store } from "./store.js";

// Pause between two looks at whether an undo is done.
const POLL_MS = 100;

// Labels that are named; others are counted: one change may be about hundreds.
const NAMED_LABELS = 6;

// Of two quick presses, the second would undo what nobody meant.
let isUndoing = false;

export function startHistory() {
  // Of two who see the same last change and undo it, the second undoes nothing.
  for (const verb of ["undo", "redo"]) {
    $(verb).onclick = (event) => go(verb, { last: store.state.history.at(-1)?.id }, event);
  }
  store.subscribe(["history", "present", "earlier", "status", "language"], show);
}

function show(state) {
  redraw($("history"), historyLines(state).toReversed().map((entry) => entryItem(entry, state.language)));
  enable();
}

function entryItem(entry, language) {
  const time = entry.seconds_since_1970 ? ` · ${dateTime(entry.seconds_since_1970, language)}` : "";
  const undone = entry.isUndone ? ` · ${message("undone")}` : "";
  const what = element("span", { className: entry.isUndone ? "undone" : "" }, changeSentence(entry));
  const mark = entry.isPresent ? element("span", { className: "badge", textContent: message("present") })
    : element("button", { value: entry.id, textContent: message("back"), "aria-label": message("backOf", entry), on: (event) => goBack(entry, event) });
  return element("li", {}, what, small(`${entry.entry}${time}${undone}`), entry.isStep ? mark : "");
}

// Of a rename or a move, the labels say from what to what; of other changes, which things they are about.
export function changeSentence({ change, to, balance, labels }) {
  const what = term("past", change, { to, balance: term("balances", balance) });
  const others = labels.length - NAMED_LABELS;
  return `${what} ${labels.slice(0, NAMED_LABELS).map(readable).join(["rename", "move"].includes(change) ? " → " : ", ")}${others > 0 ? ` … (+${others})` : ""}`;
}

function enable() {
  $("undo").disabled = isUndoing || !(store.state.status?.changes > 0);
  $("redo").disabled = isUndoing || !(store.state.status?.undone > 0);
  document.querySelectorAll("#history button").forEach((button) => { button.disabled = isUndoing; });
}

async function goBack(entry, { detail, currentTarget }) {
  if (await ask(message("backAsk"))) await go("undo", { entry: entry.id }, { detail, currentTarget });
}

async function go(verb, target, click) {
  if (isUndoing) return;
  const byKey = isByKey(click), button = click.currentTarget;
  isUndoing = true;
  enable();
  showError();
  const doubleClick = sleep(DOUBLE_CLICK_MS);
  try {
    let job = await (await call("POST", api(verb), target)).json();
    while (isUnfinished(job)) {
      await sleep(POLL_MS);
      job = await get(`jobs/${job.id}`, { quiet: true });
    }
  } catch { /* The error is shown. */ }
  await Promise.allSettled([refreshClasses(), doubleClick]);
  isUndoing = false;
  enable();
  // A button that cannot be pressed any more has no focus.
  const next = button.isConnected && !button.disabled ? button : $("undo");
  if (byKey) (next.disabled ? $("redo") : next).focus();
}
