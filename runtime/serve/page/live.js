// The service's own camera: its live picture, and what it shows.
import { $, setText, sleep } from "./dom.js";
import { message } from "./language.js";
import { problem } from "./problems.js";
import { api, call } from "./service.js";
import { store } from "./store.js";

// Pause between two checks of whether the camera is watched, and after a frame that could not be fetched.
const IDLE_MS = 200, RETRY_MS = 1000;
// Longest wait for a frame. The service answers within 5 seconds, without a picture where no new frame came.
const FRAME_MS = 15_000;

export function startLive() {
  store.subscribe(["deviceCamera", "deviceChosen", "language"], show);
  $("live").onerror = () => showFrame(null);
  watch();
}

let unreadable = 0;
function show({ deviceCamera: camera, deviceChosen, connected }) {
  // What the camera showed before the connection was lost is no answer.
  if (!camera || !deviceChosen || !connected) return;
  store.update({ answer: { matches: camera.matches, set: camera.set, known: camera.known, empty: camera.empty } });
  const isBad = camera.unreadable > unreadable && camera.unreadable_reason;
  unreadable = camera.unreadable;
  const bad = isBad ? message("deviceUnreadable", { reason: problem(camera.unreadable_reason) }) : "";
  const said = camera.scene?.problem ?? camera.scene?.advice ?? "", place = said && problem(said);
  setText("camera-error", camera.state === "away" ? message("deviceAway", camera) : bad || place);
}

// Fetches frame after frame while people watch the camera.
async function watch() {
  for (let newest = 0; ;) {
    let rest = IDLE_MS;
    if (store.state.deviceChosen && !document.hidden) {
      try {
        newest = await showFrameAfter(newest);
        rest = 0;
      } catch {
        // An old picture would be taken for a new one.
        showFrame(null);
        newest = 0;
        rest = RETRY_MS;
      }
    }
    await sleep(rest);
  }
}

// Waits for a frame with another number, shows it, and returns its number. Throws if the service does not answer.
async function showFrameAfter(newest) {
  const path = `${api("camera.jpg")}?after=${newest}`;
  const response = await call("GET", path, undefined, { quiet: true, limitMs: FRAME_MS });
  const number = Number(response.headers.get("orco-frame"));
  if (number !== newest) showFrame(URL.createObjectURL(await response.blob()));
  return number;
}

function showFrame(url) {
  const before = store.state.devicePicture;
  store.update({ devicePicture: url });
  if (before) URL.revokeObjectURL(before);
}
