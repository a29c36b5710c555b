// Consent to keep pictures: of the browser's camera nothing is kept before somebody allows it in this browser.
import { $, setText } from "./dom.js";
import { message } from "./language.js";
import { store } from "./store.js";

const KEY = "collect";

// Whether pictures may be kept: only if that was said.
export const isGiven = () => localStorage.getItem(KEY) === "yes";

export function startConsent() {
  $("collect").onchange = () => decide($("collect").checked);
  $("collect-allow").onclick = () => {
    decide(true);
    // The button is gone, and the focus with it.
    $("tab-review").focus();
  };
  store.subscribe(["inbox", "collects", "deviceChosen", "deviceCamera", "language"], show);
  store.update({ collects: isGiven() });
}

function decide(isAllowed) {
  localStorage.setItem(KEY, isAllowed ? "yes" : "no");
  store.update({ collects: isAllowed });
}

function show({ inbox, collects, deviceChosen, deviceCamera }) {
  const most = inbox?.most ?? 0;
  $("collecting").hidden = !most;
  $("collect-ask").hidden = !most || collects || deviceChosen;
  $("collect").checked = collects;
  $("collect-device").hidden = !deviceCamera;
  const what = message("collectWhat", { most });
  setText("collect-what", what);
  setText("collect-asked", `${message("collectNothing")} ${what}`);
}
