// Pictures that the service keeps: they come with the token, so as blobs, each once.
import { $, api, call, change, ask, make, percent, say } from "./common.js";

const MOST = 256;
const blobs = new Map();

// An address for an image; the oldest are let go.
export function source(path) {
  if (!blobs.has(path)) {
    const got = call("GET", path, undefined, true).then((sent) => sent.blob()).then((blob) => URL.createObjectURL(blob));
    blobs.set(path, got);
    got.catch(() => blobs.delete(path));
    if (blobs.size > MOST) {
      const [oldest, old] = blobs.entries().next().value;
      blobs.delete(oldest);
      old.then((address) => URL.revokeObjectURL(address), () => {});
    }
  }
  return blobs.get(path);
}

// Whether a shot still belongs to a class changes with what is known.
export function forgetStored() {
  for (const [path, got] of [...blobs]) {
    if (!path.startsWith(api("classes/"))) continue;
    blobs.delete(path);
    got.then((address) => URL.revokeObjectURL(address), () => {});
  }
}

export function picture(path, alt) {
  const image = make("img", { alt });
  source(path).then((address) => { image.src = address; }, () => {});
  return image;
}

const place = (label, id) => api(`classes/${encodeURIComponent(label)}/shots/${id}`);

// ---- why

export function showWhy(why) {
  const like = (why ?? []).map(({ label, similarity, thumbnail }) => {
    const alt = say("alike", { label, percent: percent(Math.max(0, similarity)) });
    const shown = thumbnail ? picture(thumbnail, "") : make("span", { className: "no-picture", textContent: say("fromStart") });
    return make("li", {}, shown, make("span", { className: "small", textContent: alt }));
  });
  $("why").hidden = !why;
  $("why-list").replaceChildren(...like);
}

// ---- classes

// The stored shots of a class; pressing one moves it, by its id: its number may be another shot's by then.
export function thumbnails({ label, stored }) {
  const one = ({ id, number }) => {
    const move = async () => {
      const to = await ask(say("moveAsk", { label, number }), label, "known");
      if (to && to.trim() !== label) await change("PATCH", `classes/${encodeURIComponent(label)}/shots/${id}`, { label: to.trim() });
    };
    const name = say("storedShot", { label, number });
    return make("li", {}, make("button", { title: name, "aria-label": name, on: move }, picture(`${place(label, id)}.jpg`, "")));
  };
  return make("ul", { className: "stored", "aria-label": say("storedShots", { label }) }, ...stored.filter((shot) => shot.thumbnail).map(one));
}

// Pictures of classes, side by side.
const SHOWN = 3;
export function sideBySide(labels, classes, title) {
  const columns = labels.map((label) => {
    const shots = (classes.find((known) => known.label === label)?.stored ?? []).filter((shot) => shot.thumbnail);
    const pictures = shots.slice(0, SHOWN).map(({ id }) => picture(`${place(label, id)}.jpg`, ""));
    if (!pictures.length) pictures.push(make("span", { className: "no-picture", textContent: say("fromStart") }));
    return make("div", {}, make("div", { className: "strip" }, ...pictures), make("p", { className: "small", textContent: label }));
  });
  return make("div", { className: "beside", role: "group", "aria-label": title }, ...columns);
}
