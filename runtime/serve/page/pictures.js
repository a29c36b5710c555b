// Pictures that the service keeps. An <img> cannot send the token, so they are fetched as blobs, each once.
import { element } from "./dom.js";
import { message } from "./language.js";
import { api, call, classPath } from "./service.js";

const MAX_ADDRESSES = 256;
// Addresses of blobs by path, in the order of fetching.
const addresses = new Map();

function address(path) {
  if (!addresses.has(path)) {
    const fetched = call("GET", path, undefined, { quiet: true })
      .then((response) => response.blob()).then((blob) => URL.createObjectURL(blob));
    addresses.set(path, fetched);
    fetched.catch(() => addresses.delete(path));
    if (addresses.size > MAX_ADDRESSES) release(addresses.keys().next().value);
  }
  return addresses.get(path);
}

function release(path) {
  addresses.get(path).then((url) => URL.revokeObjectURL(url), () => {});
  addresses.delete(path);
}

// Lets go of the pictures whose paths `isObsolete` says may not be shown again.
export function releasePictures(isObsolete) {
  [...addresses.keys()].filter(isObsolete).forEach(release);
}

// Whether a stored shot still belongs to a class changes with every change of classes.
export const releaseStored = () => releasePictures((path) => path.startsWith(api("classes/")));

export function picture(path, alt = "") {
  const image = element("img", { alt });
  address(path).then((url) => { image.src = url; }, () => {});
  return image;
}

// In place of a picture that came with the bundle, which has none.
export const noPicture = () => element("span", { className: "no-picture", textContent: message("fromStart") });

// Stored shots of a class that have a picture.
export const picturedShots = (known) => (known?.stored ?? []).filter(({ thumbnail }) => thumbnail);

// The picture of a stored shot.
export const storedPicture = (label, { id }) => picture(api(`${classPath(label)}/shots/${id}.jpg`));
