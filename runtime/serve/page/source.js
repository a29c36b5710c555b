// Where pictures come from: the browser's camera, files, or the service's own camera.
import { look, showAnswer } from "./answer.js";
import { chooseDevice, device, showNothing } from "./camera.js";
import { $, say } from "./common.js";
import { showHint } from "./shots.js";

export let stream = null, files = [];
const canvas = document.createElement("canvas");

export function frame(side) {
  const { videoWidth: width, videoHeight: height } = $("video");
  if (!stream || !width) return Promise.resolve(null);
  const scale = Math.min(1, side / Math.max(width, height));
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.getContext("2d").drawImage($("video"), 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
}

function stopCamera() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = $("video").srcObject = null;
}

export const hasSource = () => Boolean(stream || files.length || device.chosen);

export async function toggleCamera() {
  $("camera-error").textContent = "";
  if (stream) stopCamera();
  else if (!navigator.mediaDevices) $("camera-error").textContent = say("cameraInsecure");
  else {
    try {
      const wanted = { facingMode: "environment", width: { ideal: 1280 }, height: { ideal: 960 } };
      stream = await navigator.mediaDevices.getUserMedia({ video: wanted, audio: false });
      stream.getVideoTracks()[0].addEventListener("ended", () => { stopCamera(); showSource(); });
      $("video").srcObject = stream;
      await $("video").play();
      files = [];
      chooseDevice(false);
    } catch (error) {
      stopCamera();
      $("camera-error").textContent = say("cameraFailed", { reason: error.message });
    }
  }
  showSource();
}

export function choose() {
  files = [...$("file").files];
  if (files.length) { stopCamera(); chooseDevice(false); }
  $("error").textContent = "";
  // The answer to another picture.
  showAnswer([]);
  showSource();
}

export function showSource() {
  $("video").hidden = !stream;
  $("still").hidden = !files.length;
  $("square").hidden = !hasSource();
  showNothing();
  $("camera").hidden = $("collect-row").hidden = device.chosen;
  if ($("still").src) URL.revokeObjectURL($("still").src);
  if (files.length) $("still").src = URL.createObjectURL(files[0]);
  else $("still").removeAttribute("src");
  $("still").alt = $("live").alt = say("picture");
  $("camera").textContent = say(stream ? "cameraStop" : "camera");
  $("shoot").textContent = say(files.length ? "shootFiles" : "shoot");
  if (!hasSource()) showAnswer([]);
  if (files.length) look().catch(() => {});
  showHint();
}

// The service's own camera is looked at instead.
export function leaveToDevice() {
  stopCamera();
  files = [];
}
