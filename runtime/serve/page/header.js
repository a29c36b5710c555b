// The head of the page: the bundle, the connection, what is wrong with the service, and the language.
import { $, setText, showError } from "./dom.js";
import { message, setLanguage } from "./language.js";
import { problem } from "./problems.js";
import { browserStorage } from "./storage.js";
import { store } from "./store.js";

// To be called before any other part of the page subscribes to the language: texts are chosen here.
export function startHeader() {
  $("error-close").onclick = () => showError();
  $("language").onchange = () => {
    browserStorage.set("language", $("language").value);
    store.update({ language: setLanguage($("language").value) });
  };
  store.subscribe(["language"], showTexts);
  store.subscribe(["connected", "language"], showConnection);
  // That the service could not be reached is no news any more.
  store.subscribe(["connected"], ({ connected }) => { if (connected) showError(); });
  store.subscribe(["status", "language"], showStatus);
  const language = browserStorage.get("language") ?? navigator.language.split("-")[0];
  store.update({ language: setLanguage(language) });
  showTexts(store.state);
}

function showTexts({ language }) {
  document.documentElement.lang = $("language").value = language;
  document.querySelectorAll("[data-text]").forEach((node) => { node.textContent = message(node.dataset.text); });
  document.querySelectorAll("[data-label]").forEach((node) => node.setAttribute("aria-label", message(node.dataset.label)));
}

function showConnection({ connected }) {
  if (connected !== null) setText("connection", message(connected ? "connected" : "lostConnection"));
}

function showStatus({ status }) {
  if (!status) return;
  $("bundle").textContent = status.bundle;
  const unusable = status.problem ? message("problem", { problem: problem(status.problem) }) : "";
  setText("problem", [unusable, ...status.problems.map(problem)].filter(Boolean).join(" "));
}
