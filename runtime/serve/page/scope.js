// Which classes are answered: all that are known, or only what was learned.
import { showChoices } from "./choices.js";
import { $, setText } from "./dom.js";
import { message, term } from "./language.js";
import { learnedClasses } from "./selectors.js";
import { change } from "./service.js";
import { store } from "./store.js";

// Whether answers named only what was learned, when that was last told, and whether that has changed while the page is
// open: whoever teaches is told once.
let wasLearnedOnly = null, isNew = false, isRead = false;

export function startScope() {
  store.subscribe(["status", "classes", "language"], show);
  $("scope-close").onclick = () => { isRead = true; show(store.state); };
}

function show({ status, classes }) {
  if (!status) return;
  const { answers, answer_choices: scopes, learned_only: isLearnedOnly } = status;
  $("scope").hidden = !scopes;
  const choices = (scopes ?? []).map((value) => ({ value, label: term("scopes", value) }));
  const choose = async (scope) => { if (!await change("POST", "answers", { answers: scope })) show(store.state); };
  showChoices($("scope-choices"), "answers", choices, answers, choose);
  const count = learnedClasses({ classes }).length;
  setText("scope-state", isLearnedOnly ? message("learnedOnly", { count }) : "");
  isNew = isLearnedOnly && (isNew || wasLearnedOnly === false);
  $("scope-news").hidden = !isNew || isRead;
  setText("scope-note", message("learnedOnlyNow"));
  wasLearnedOnly = isLearnedOnly;
}
