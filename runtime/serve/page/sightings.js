// What the service's own camera saw, and when, where that is kept.
import { ask } from "./dialog.js";
import { $, element, setText, small } from "./dom.js";
import { dateTime, isolate, message, readable } from "./language.js";
import { picture, releasePictures } from "./pictures.js";
import { stay } from "./selectors.js";
import { api, change } from "./service.js";
import { store } from "./store.js";
import { save } from "./transfer.js";

// Those that are listed on the page; the file has all.
const MOST_SHOWN = 24;

export function startSightings() {
  store.subscribe(["sightings", "language"], show);
  $("sightings-save").onclick = () => save("sightings/sightings.csv", "sightings.csv").catch(() => { /* The error is shown. */ });
  $("sightings-clear").onclick = clear;
}

function show({ sightings, language }) {
  $("sightings").hidden = !sightings.kept;
  if (!sightings.kept) return;
  const all = sightings.sightings;
  const listed = new Set(all.map(({ id }) => path(id)));
  releasePictures((address) => address.startsWith(api("sightings/")) && !listed.has(address));
  $("sightings-count").textContent = all.length ? message("sightingsKept", { most: sightings.most }) : message("sightingsNone");
  setText("sightings-problem", sightings.problem ? message("sightingsProblem", { reason: sightings.problem }) : "");
  $("sightings-list").replaceChildren(...all.slice(0, MOST_SHOWN).map((sighting) => item(sighting, language)));
  $("sightings-save").hidden = $("sightings-clear").hidden = !all.length;
}

const path = (id) => api(`sightings/${id}.jpg`);

function item({ id, label, region, seconds_since_1970: from, seconds }, language) {
  const { key, count } = stay(seconds);
  const place = region ? ` · ${isolate(region)}` : "";
  return element("li", {}, picture(path(id)), element("span", {}, readable(label)),
    small(`${dateTime(from, language, "medium")} · ${message(key, { count })}${place}`));
}

async function clear() {
  if (await ask(message("sightingsClearAsk"))) await change("DELETE", "sightings");
}
