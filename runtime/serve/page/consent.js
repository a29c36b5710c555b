// Consent to keep pictures: of the browser's camera nothing is kept before somebody allows it in this browser.
import { $, setText } from "./dom.js";
import { message } from "./language.js";
import { browserStorage } from "./storage.js";
import { store } from "./store.js";

const KEY = "collect";

// Whether pictures may be kept; null before somebody has decided, and then they may not.
export const storedDecision = () => ({ yes: true, no: false })[browserStorage.get(KEY)] ?? null;

export function startConsent() {
  $("collect").onchange = () => decide($("collect").checked);
  $("collect-allow").onclick = () => answer(true);
  $("collect-refuse").onclick = () => answer(false);
  store.subscribe(["inbox", "collects", "deviceChosen", "deviceCamera", "stream", "language"], show);
  const read = () => store.update({ collects: storedDecision() });
  // In another tab of this browser, somebody may decide.
  addEventListener("storage", read);
  read();
}

function decide(isAllowed) {
  browserStorage.set(KEY, isAllowed ? "yes" : "no");
  store.update({ collects: isAllowed });
}

function answer(isAllowed) {
  decide(isAllowed);
  // The buttons are gone, and the focus with them.
  $("tab-review").focus();
}

function show({ inbox, collects, deviceChosen, deviceCamera, stream }) {
  const most = inbox?.most ?? 0;
  $("collecting").hidden = !most;
  $("collect-ask").hidden = !most || collects !== null || deviceChosen;
  $("collect").checked = collects === true;
  setText("collect-begun", !most || !collects || deviceChosen ? "" : message(stream ? "collectBegun" : "collectBegins"));
  $("collect-device").hidden = !deviceCamera;
  const what = message("collectWhat", { most });
  setText("collect-what", what);
  setText("collect-asked", `${message("collectNothing")} ${what}`);
}
