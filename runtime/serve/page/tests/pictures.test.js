import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { picture, releasePictures } from "../pictures.js";

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
  const images = show(300);
  await everythingFetched();
  assert.deepEqual(images.map(({ src }) => src), images.map((_, index) => `blob:/${index}`));
  assert.equal(revoked.size, 0);
  // The last are the first to load.
  const waiting = [...images];
  while (waiting.length) {
    waiting.pop().onload();
    await everythingFetched();
    waiting.forEach(({ src }) => assert.ok(!revoked.has(src), src));
  }
  assert.equal(revoked.size, 300 - 256);
  releasePictures(() => true);
  await everythingFetched();
  assert.equal(revoked.size, 300);
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
