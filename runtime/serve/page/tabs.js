// The tabs: one panel at a time. A wide screen has room for some panels beside it, whose tabs are then not needed.
import { $, setText, showError } from "./dom.js";
import { message } from "./language.js";
import { isNewReport, isUnfinished } from "./selectors.js";
import { store } from "./store.js";

// Each has a button tab-NAME and a panel-NAME in index.html.
export const TABS = ["teach", "review", "knows", "history", "settings"];
const BESIDE = ["knows", "history"];
const WIDE = "(min-width: 100rem)";

// The tabs that there are.
export const tabsOf = (isWide) => (isWide ? TABS.filter((tab) => !BESIDE.includes(tab)) : TABS);

// The tab that a fragment of the page's address names, if there is such a tab.
export const tabOf = (fragment) => TABS.find((tab) => `#${tab}` === fragment);

// The tab that a key leads to from another one; none where the key is not one of these.
export function tabAfter(key, from, tabs) {
  const at = tabs.indexOf(from), count = tabs.length;
  const places = { ArrowRight: at + 1, ArrowLeft: at - 1 + count, Home: 0, End: count - 1 };
  return Object.hasOwn(places, key) ? tabs[places[key] % count] : undefined;
}

// What stands on tabs, in a character or two, and as it is read out.
export function badges({ inbox, job, tab, reportSeen }) {
  const count = (inbox?.groups ?? []).reduce((sum, { frames }) => sum + frames.length, 0);
  const review = count ? { text: count > 99 ? "99+" : String(count), said: message("inboxCount", { count }) } : null;
  const key = isUnfinished(job) ? "badgeRunning" : isNewReport({ job, tab, reportSeen }) ? "badgeReport" : null;
  return { review, teach: key && { text: key === "badgeRunning" ? "…" : "•", said: message(key) } };
}

let wide = null;

export function startTabs() {
  wide = matchMedia(WIDE);
  wide.addEventListener("change", () => show(store.state));
  for (const tab of TABS) $(`tab-${tab}`).onclick = () => chooseTab(tab);
  $("tabs").onkeydown = press;
  window.addEventListener("hashchange", followAddress);
  store.subscribe(["tab"], show);
  store.subscribe(["tab", "job"], seeReport);
  store.subscribe(["inbox", "job", "tab", "reportSeen", "language"], showBadges);
  followAddress();
  show(store.state);
}

function followAddress() {
  const tab = tabOf(location.hash);
  if (tab) store.update({ tab });
}

// Chooses a tab, and keeps it in the page's address for when that is loaded again.
export function chooseTab(tab) {
  history.replaceState(null, "", `#${tab}`);
  showError();
  store.update({ tab });
  scrollTo({ top: 0 });
  // On a low screen, where it scrolls with the page, the picture would fill it.
  const panel = $(`panel-${tab}`);
  const scrolls = getComputedStyle(document.querySelector(".look")).position === "static";
  if (scrolls && panel.getBoundingClientRect().top > 0.7 * innerHeight) panel.scrollIntoView();
}

const shown = ({ tab }) => (tabsOf(wide.matches).includes(tab) ? tab : TABS[0]);

function press(event) {
  const tab = tabAfter(event.key, shown(store.state), tabsOf(wide.matches));
  if (!tab || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  chooseTab(tab);
  $(`tab-${tab}`).focus();
}

function show(state) {
  for (const tab of TABS) {
    const isChosen = tab === shown(state), isBeside = !tabsOf(wide.matches).includes(tab);
    const button = $(`tab-${tab}`);
    button.hidden = isBeside;
    button.setAttribute("aria-selected", String(isChosen));
    button.tabIndex = isChosen ? 0 : -1;
    showPanel($(`panel-${tab}`), button.id, { isChosen, isBeside });
  }
}

function showPanel(panel, tabId, { isChosen, isBeside }) {
  panel.hidden = !isChosen && !isBeside;
  // What always stands there belongs to no tab.
  for (const [name, value] of [["role", "tabpanel"], ["aria-labelledby", tabId]]) {
    if (isBeside) panel.removeAttribute(name);
    else panel.setAttribute(name, value);
  }
}

// Whoever looks at the tab when the change is made, or later, sees its report.
function seeReport(state) {
  if (shown(state) === "teach" && state.job && !isUnfinished(state.job)) store.update({ reportSeen: state.job.id });
}

function showBadges(state) {
  for (const [tab, badge] of Object.entries(badges({ ...state, tab: shown(state) }))) {
    $(`badge-${tab}`).hidden = !badge;
    setText(`badge-${tab}`, badge?.text ?? "");
    setText(`badge-${tab}-said`, badge?.said ?? "");
  }
}
