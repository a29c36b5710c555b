// The balance: how readily pictures are taken for what was learned, and what each one would recognise.
import { showChoices } from "./choices.js";
import { $, setText } from "./dom.js";
import { message, percent, term } from "./language.js";
import { learnedClasses } from "./selectors.js";
import { beginRequest, change, get } from "./service.js";
import { store } from "./store.js";

export function startBalance() {
  store.subscribe(["status", "classes", "balances", "outlook", "language"], show);
  store.subscribe(["tab", "status", "classes"], refresh);
  store.subscribe(["job"], (state) => { if (state.job?.state === "failed") show(state); });
}

// The balance that counts stays chosen where another one was refused.
async function choose(balance) {
  if (!await change("POST", "balance", { balance })) show(store.state);
}

function show({ status, classes, balances, outlook }) {
  if (!status) return;
  const isShown = Boolean(status.balance) && learnedClasses({ classes }).length > 0;
  $("balance").hidden = !isShown;
  $("balance").disabled = status.learned_only;
  $("answering-none").hidden = isShown;
  const isSame = isWithoutEffect(balances);
  const choices = status.balances.map((value) => {
    // The estimates are of answers that name all classes.
    const estimate = isSame || status.learned_only ? null : balances.find(({ balance }) => balance === value);
    return { value, label: term("balances", value), note: estimate ? estimateSentence(estimate) : "" };
  });
  showChoices($("balance-choices"), "balance", choices, status.balance, choose);
  // Without base classes in answers there is nothing to weigh.
  const note = status.learned_only ? message("balanceIdle") : isSame ? message("balanceSame") : "";
  const expected = status.learned_only ? outlook.expected_learned_only : outlook.expected ?? status.expected;
  setText("expected", [note, expectedSentence(expected)].filter(Boolean).join(" "));
}

// Whether all balances recognise the same of what is stored.
const isWithoutEffect = ([first, ...others]) => others.length > 0 && others.every((other) =>
  other.recognised === first.recognised && other.taken_for_learned === first.taken_for_learned);

// What a balance would recognise of the stored shots, and what it would wrongly take for them.
export const estimateSentence = ({ recognised, shots, taken_for_learned: taken, base_samples: others }) =>
  message("balanceEstimate", { recognised, shots, taken, others });

// What is expected of the sides of which samples say something; of learned classes alone, there is no base.
export function expectedSentence(expected) {
  if (!(expected?.learned > 0)) return "";
  const [low, high] = (expected.learned_range ?? [expected.learned, expected.learned]).map(percent);
  const learned = low === high ? low : `${low}–\u2060${high}`;
  return (expected.base ?? null) === null ? message("expectedLearned", { learned }) : message("expected", { base: percent(expected.base), learned });
}

// The estimates change with what is known, and are read where they are seen.
async function refresh({ tab, classes }) {
  if (tab !== "settings" || !learnedClasses({ classes }).length) return;
  const isNewest = beginRequest("balance");
  const { choices, ...outlook } = await get("balance", { quiet: true }).catch(() => ({ choices: [] }));
  if (isNewest()) store.update({ balances: choices, outlook });
}
