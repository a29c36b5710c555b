// Which of the browser's cameras is used, where there are several. Browsers name them once people allowed one.
import { $, element } from "./dom.js";
import { browserStorage } from "./storage.js";
import { store } from "./store.js";

const CHOSEN = "camera";

// The stream of the camera that people chose, if it is there, else of one that looks away from them.
export async function openCamera(size) {
  const open = (which) => navigator.mediaDevices.getUserMedia({ video: { ...which, ...size }, audio: false });
  const chosen = browserStorage.get(CHOSEN);
  const ifThere = (error) => {
    if (error.name !== "OverconstrainedError") throw error;
  };
  // An ideal camera would count less than the ideal size.
  const stream = chosen && await open({ deviceId: { exact: chosen } }).catch(ifThere);
  return stream || open({ facingMode: "environment" });
}

// Calls `restart` when people choose another camera.
export function listenToCameraChoice(restart) {
  $("camera-choice").onchange = () => {
    browserStorage.set(CHOSEN, $("camera-choice").value);
    restart();
  };
}

// Lists the cameras, and marks the one that runs, else the chosen one.
export async function showCameraChoice() {
  // A camera may be plugged in or taken away meanwhile.
  navigator.mediaDevices.ondevicechange = () => showCameraChoice().catch(() => {});
  const devices = await navigator.mediaDevices.enumerateDevices();
  const cameras = devices.filter(({ kind, deviceId }) => kind === "videoinput" && deviceId);
  const { stream } = store.state;
  const marked = stream ? stream.getVideoTracks()[0].getSettings().deviceId : browserStorage.get(CHOSEN);
  // Numbered, since cameras of one model have the same name.
  $("camera-choice").replaceChildren(...cameras.map(({ deviceId, label }, index) =>
    element("option", { value: deviceId, textContent: `${index + 1}: ${label}`, selected: deviceId === marked })));
  // Otherwise the first one would look chosen, and could not be.
  if (!cameras.some(({ deviceId }) => deviceId === marked)) $("camera-choice").selectedIndex = -1;
  $("browser-cameras").hidden = cameras.length < 2;
}
