// Pictures that the page fetches, shows and lets go.
import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { picture, releasePictures, releaseStored, showWhenSeen, storedPicture } from "../pictures.js";

globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };
globalThis.document = { createElement: () => ({ append: () => {} }) };

let revoked;
beforeEach(async () => {
  releasePictures(() => true);
  await everythingFetched();
  revoked = new Set();
  globalThis.fetch = async (path) => ({ ok: true, blob: async () => path });
  globalThis.URL = { createObjectURL: (path) => `blob:${path}`, revokeObjectURL: (url) => revoked.add(url) };
});

const everythingFetched = () => new Promise((done) => setTimeout(done));
const show = (count) => Array.from({ length: count }, (_, index) => picture(`/${index}`));

test("of many pictures, none is revoked before its image has loaded", async () => {
  const images = show(1100);
  await everythingFetched();
  assert.deepEqual(images.map(({ src }) => src), images.map((_, index) => `blob:/${index}`));
  assert.equal(revoked.size, 0);
  // The last are the first to load.
  const waiting = [...images];
  while (waiting.length) {
    waiting.splice(-20).forEach((image) => image.onload());
    await everythingFetched();
    waiting.forEach(({ src }) => assert.ok(!revoked.has(src), src));
  }
  assert.equal(revoked.size, 1100 - 1024);
  releasePictures(() => true);
  await everythingFetched();
  assert.equal(revoked.size, 1100);
});

test("a picture that is let go while it is fetched is revoked once its images have loaded, or cannot", async () => {
  const images = [picture("/mug"), picture("/mug")];
  releasePictures(() => true);
  await everythingFetched();
  images[0].onload();
  await everythingFetched();
  assert.equal(revoked.size, 0);
  images[1].onerror();
  await everythingFetched();
  assert.deepEqual([...revoked], ["blob:/mug"]);
});

test("after a change of classes, no stored picture is fetched that was shown before, and none is kept that belongs to no class", async () => {
  const fetched = [];
  globalThis.fetch = async (path) => { fetched.push(path); return { ok: true, blob: async () => path }; };
  const known = (label, ...ids) => ({ label, stored: ids.map((id) => ({ id, thumbnail: true })) });
  const showStored = async (classes) => {
    releaseStored(classes);
    const images = classes.flatMap(({ label, stored }) => stored.map((shot) => storedPicture(label, shot)));
    await everythingFetched();
    images.forEach((image) => image.onload());
    await everythingFetched();
  };
  await showStored([known("mug", "a1", "b2")]);
  await showStored([known("mug", "a1"), known("cup", "c3")]);
  const path = (label, id) => `api/v1/classes/${label}/shots/${id}.jpg`;
  assert.deepEqual(fetched, [path("mug", "a1"), path("mug", "b2"), path("cup", "c3")]);
  assert.deepEqual([...revoked], [`blob:${path("mug", "b2")}`]);
});

test("a picture that did not come is asked for again", async () => {
  const { fetch } = globalThis;
  globalThis.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
  assert.equal(picture("/duck").src, undefined);
  await everythingFetched();
  globalThis.fetch = fetch;
  const image = picture("/duck");
  await everythingFetched();
  assert.equal(image.src, "blob:/duck");
});

test("of a long list, only the pictures that are seen are fetched, and each once", async () => {
  const fetched = [], watched = new Set();
  globalThis.fetch = async (path) => { fetched.push(path); return { ok: true, blob: async () => path }; };
  let see;
  globalThis.IntersectionObserver = class {
    constructor(listener) { see = (target, isIntersecting) => listener([{ target, isIntersecting }]); }
    observe(box) { watched.add(box); }
    unobserve(box) { watched.delete(box); }
  };
  const boxes = Array.from({ length: 300 }, (_, index) => {
    const box = { dataset: {}, shown: [], append(image) { this.shown.push(image); } };
    showWhenSeen(box, "mug", { id: `a${index}` });
    return box;
  });
  see(boxes[0], false);
  see(boxes[7], true);
  await everythingFetched();
  assert.deepEqual(fetched, ["api/v1/classes/mug/shots/a7.jpg"]);
  assert.equal(boxes[7].shown[0].src, "blob:api/v1/classes/mug/shots/a7.jpg");
  assert.equal(watched.size, 299);
});
