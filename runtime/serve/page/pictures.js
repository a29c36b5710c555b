// Pictures that the service keeps. An <img> cannot send the token, so they are fetched as blobs, each once.
import { element } from "./dom.js";
import { message } from "./language.js";
import { api, call, classPath } from "./service.js";

const MOST_KEPT = 1024;
// Pictures by path, in the order of fetching: the address of a blob, and how many images have not loaded it yet.
const kept = new Map();

function fetchOnce(path) {
  if (!kept.has(path)) {
    const address = call("GET", path, undefined, { quiet: true })
      .then((response) => response.blob()).then((blob) => URL.createObjectURL(blob));
    const fetched = { address, loading: 0, isReleased: false };
    kept.set(path, fetched);
    address.catch(() => { if (kept.get(path) === fetched) kept.delete(path); });
  }
  return kept.get(path);
}

// An image shows nothing if its address is revoked before it has loaded.
function revokeWhenLoaded({ address, loading, isReleased }) {
  if (isReleased && !loading) address.then((url) => URL.revokeObjectURL(url), () => {});
}

function release(path) {
  const fetched = kept.get(path);
  kept.delete(path);
  fetched.isReleased = true;
  revokeWhenLoaded(fetched);
}

// Lets go of the oldest where there are too many, except for those that an image still has to load.
function releaseOldest() {
  for (const [path, { loading }] of kept) {
    if (kept.size <= MOST_KEPT) return;
    if (!loading) release(path);
  }
}

// Lets go of the pictures whose paths `isObsolete` says may not be shown again.
export function releasePictures(isObsolete) {
  [...kept.keys()].filter(isObsolete).forEach(release);
}

export function picture(path, alt = "") {
  const image = element("img", { alt });
  const fetched = fetchOnce(path);
  fetched.loading += 1;
  const settle = () => {
    fetched.loading -= 1;
    revokeWhenLoaded(fetched);
    releaseOldest();
  };
  fetched.address.then((url) => {
    image.onload = image.onerror = settle;
    image.src = url;
  }, settle);
  return image;
}

// In place of a picture that came with the bundle, which has none.
export const noPicture = () => element("span", { className: "no-picture", textContent: message("fromStart") });

// Stored shots of a class that have a picture.
export const picturedShots = (known) => (known?.stored ?? []).filter(({ thumbnail }) => thumbnail);

const storedPath = (label, { id }) => api(`${classPath(label)}/shots/${id}.jpg`);

// The picture of a stored shot.
export const storedPicture = (label, shot) => picture(storedPath(label, shot));

let watcher = null;

// Puts the picture of a stored shot into `box` once that is seen: hundreds would hold up all else.
export function showWhenSeen(box, label, shot) {
  box.dataset.path = storedPath(label, shot);
  watcher ??= new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    if (!isIntersecting) return;
    watcher.unobserve(target);
    target.append(picture(target.dataset.path));
  }));
  watcher.observe(box);
}

// Lets go of those that belong to no class any more. The others, whose ids are digests, are not fetched again.
export function releaseStored(classes) {
  const stored = new Set(classes.flatMap((known) => picturedShots(known).map((shot) => storedPath(known.label, shot))));
  releasePictures((path) => path.startsWith(api("classes/")) && !stored.has(path));
}
