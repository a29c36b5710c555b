// Where pictures come from: the browser's camera, files, or the service's own camera.
import { listenToCameraChoice, openCamera, showCameraChoice } from "./cameras.js";
import { $, setText, showError } from "./dom.js";
import { message } from "./language.js";
import { hasSource } from "./selectors.js";
import { NO_ANSWER, store } from "./store.js";

const JPEG_QUALITY = 0.92;
const SOURCE_FIELDS = ["stream", "files", "deviceChosen"];
const { subscribe, update } = store;

let canvas = null, isStarting = false;
// Whether the service's own camera was shown before the files.
let wasDevice = false;
const radio = (value) => document.querySelector(`#sources input[value=${value}]`);

// Whether the system, or another program, holds the camera back: its last picture would be taken for a new one.
export const isPaused = (stream) => Boolean(stream?.getVideoTracks()[0]?.muted);

// The browser camera's picture, its longer side at most `side` pixels; null if there is none.
export function frame(side) {
  const { videoWidth: width, videoHeight: height } = $("video");
  if (!store.state.stream || isPaused(store.state.stream) || !width) return Promise.resolve(null);
  const scale = Math.min(1, side / Math.max(width, height));
  canvas ??= document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.getContext("2d").drawImage($("video"), 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", JPEG_QUALITY));
}

// The size of the picture that is shown, in its own pixels; null while there is none.
export function pictureSize({ stream, files, deviceChosen, devicePicture }) {
  if (stream) return [$("video").videoWidth, $("video").videoHeight];
  if (deviceChosen) return keptLiveSize(devicePicture);
  return files.length ? sizeOf($("still")) : null;
}

const sizeOf = ({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight];

// In Safari an image has no size while the next frame loads, so the last one is kept. It is dropped when the picture goes:
// `startSource` must subscribe before whoever draws on the picture.
let lastSize = [0, 0];
function keptLiveSize(devicePicture) {
  const size = sizeOf($("live"));
  if (size[0] || !devicePicture) lastSize = size;
  return lastSize;
}

// The size of the view around it.
export const viewSize = () => [$("view").clientWidth, $("view").clientHeight];

export function startSource() {
  $("camera").onclick = toggleCamera;
  $("file").onchange = () => {
    const files = [...$("file").files];
    // So that the same file can be chosen again.
    $("file").value = "";
    chooseFiles(files);
  };
  listenToCameraChoice(restartCamera);
  listenToFiles();
  // One that cannot be read would be drawn as a broken one.
  $("still").onerror = () => { $("still").hidden = true; };
  radio("device").onchange = () => choose({ deviceChosen: true });
  radio("browser").onchange = () => choose({});
  subscribe(["deviceCamera"], offerDevice);
  subscribe([...SOURCE_FIELDS, "language"], show);
  subscribe([...SOURCE_FIELDS, "devicePicture", "language"], showView);
  show(store.state);
  showView(store.state);
}

// Makes one source that of the page, and no other.
function choose(source) {
  stop(store.state.stream);
  // What was wrong with the one before.
  setText("camera-error", "");
  update({ stream: null, files: [], deviceChosen: false, ...source });
}

function stop(stream) {
  stream?.getTracks().forEach((track) => track.stop());
  $("video").srcObject = null;
}

async function toggleCamera() {
  showError();
  setText("camera-error", "");
  const { stream, files, deviceCamera } = store.state;
  if (stream) {
    stop(stream);
    update({ stream: null });
  } else if (files.length && wasDevice && deviceCamera) {
    choose({ deviceChosen: true });
  } else if (!navigator.mediaDevices) {
    setText("camera-error", message("cameraInsecure"));
  } else {
    await startCamera();
  }
}

async function restartCamera() {
  const { stream } = store.state;
  if (!stream) return;
  stop(stream);
  setText("camera-error", "");
  update({ stream: null });
  await startCamera();
}

async function startCamera() {
  if (isStarting) return;
  isStarting = true;
  let stream = null;
  try {
    stream = await openCamera({ width: { ideal: 1280 }, height: { ideal: 960 } });
    $("video").srcObject = stream;
    watchTrack(stream);
    await $("video").play();
    update({ stream, files: [], deviceChosen: false });
  } catch (error) {
    stop(stream);
    setText("camera-error", cameraProblem(error));
  } finally {
    isStarting = false;
  }
  // A page that cannot list them goes on with the one.
  showCameraChoice().catch(() => {});
}

// Tells what becomes of a stream's picture, as long as it is that of the page.
function watchTrack(stream) {
  const [track] = stream.getVideoTracks();
  const tell = (kind, told) => track.addEventListener(kind, () => { if ($("video").srcObject === stream) told(); });
  const tellPaused = () => {
    update({ answer: NO_ANSWER });
    setText("camera-error", message("cameraPaused"));
  };
  tell("ended", () => {
    stop(stream);
    update({ stream: null });
    setText("camera-error", message("cameraEnded"));
  });
  tell("mute", tellPaused);
  tell("unmute", () => setText("camera-error", ""));
  if (isPaused(stream)) tellPaused();
}

// What people can do about the commonest errors, which browsers name alike; of others, they say more themselves.
const CAMERA_ERRORS = { NotAllowedError: "cameraDenied", NotFoundError: "cameraNone", NotReadableError: "cameraBusy" };

export const cameraProblem = ({ name, message: reason }) => message(CAMERA_ERRORS[name] ?? "cameraFailed", { reason: reason || name });

// Pictures may be dropped on the page, or pasted.
function listenToFiles() {
  const holdsFiles = ({ types }) => types.includes("Files");
  const chooseGiven = (event, given) => {
    event.preventDefault();
    const files = filesOf(given);
    if (files.length) chooseFiles(files);
  };
  // Without this, a browser leaves the page to show what is dropped on it.
  document.addEventListener("dragover", (event) => { if (holdsFiles(event.dataTransfer)) event.preventDefault(); });
  document.addEventListener("drop", (event) => { if (holdsFiles(event.dataTransfer)) chooseGiven(event, event.dataTransfer); });
  // One of the page's own pictures would come as a file.
  document.addEventListener("dragstart", (event) => { if (event.target.nodeName === "IMG") event.preventDefault(); });
  document.addEventListener("paste", (event) => {
    const { clipboardData: given } = event;
    // Copied text may bring a picture of itself.
    if (holdsFiles(given) && !given.types.includes("text/plain")) chooseGiven(event, given);
  });
}

// The files of what was dropped or pasted, without folders, which cannot be sent.
export const filesOf = ({ items }) =>
  [...items].filter(({ kind }) => kind === "file").filter((item) => !item.webkitGetAsEntry()?.isDirectory)
    .map((item) => item.getAsFile());

function chooseFiles(files) {
  showError();
  // The answer belongs to another picture.
  update({ answer: NO_ANSWER });
  if (files.length) choose({ files });
  else update({ files });
}

// The service's own camera is shown unless people chose another before it was known. A restarted service may have none.
let isOffered = false;
function offerDevice(state) {
  const isThere = Boolean(state.deviceCamera);
  if (isOffered === isThere) return;
  isOffered = isThere;
  $("own-camera").hidden = !isThere;
  if (!isThere) update({ deviceChosen: false, devicePicture: null });
  else if (!hasSource(state)) update({ deviceChosen: true });
}

function show(state) {
  const { stream, files, deviceChosen } = state;
  if (!files.length) wasDevice = deviceChosen;
  radio(deviceChosen ? "device" : "browser").checked = true;
  $("camera").hidden = deviceChosen;
  $("camera").textContent = message(stream ? "cameraStop" : "camera");
  $("shoot").textContent = files.length ? message("shootFiles", { count: files.length }) : message("shoot");
  $("still").alt = $("live").alt = message("picture");
  URL.revokeObjectURL($("still").src);
  setSource("still", files.length ? URL.createObjectURL(files[0]) : null);
  if (!hasSource(state)) update({ answer: NO_ANSWER });
}

function showView({ stream, files, deviceChosen, devicePicture }) {
  $("video").hidden = !stream;
  $("still").hidden = !files.length;
  $("live").hidden = !(deviceChosen && devicePicture);
  setSource("live", devicePicture);
  const isShowing = Boolean(stream || files.length || (deviceChosen && devicePicture));
  $("nothing").hidden = isShowing;
  $("view").classList.toggle("showing", isShowing);
  $("camera").classList.toggle("main", !isShowing);
  setText("nothing", message(deviceChosen ? "deviceWaiting" : "nothing"));
}

// An image without a source has no address at all: an empty one would be that of the page.
function setSource(id, url) {
  if (url) $(id).src = url;
  else $(id).removeAttribute("src");
}
