// Where things are drawn over a picture.
import assert from "node:assert/strict";
import test from "node:test";

import { MIDDLE, disjoint, hasNameRoom, middleOf, nameSides, placeInPicture, placeInView, regionAfter, regionBetween } from "../geometry.js";
import { chosenPlace, sceneText } from "../scene.js";
import { analysedParts, thingName } from "../selectors.js";

test("a part of a picture is drawn where the view shows it, whatever the shape of both", () => {
  // A wide picture in a 4:3 view: as wide as the view, with room above and below.
  assert.deepEqual(placeInView([0, 0, 1, 1], [1600, 900], [400, 300]), [0, 37.5, 400, 225]);
  assert.deepEqual(placeInView([0.5, 0.5, 0.25, 0.5], [1600, 900], [400, 300]), [200, 150, 100, 112.5]);
  // A picture that stands upright.
  assert.deepEqual(placeInView([0, 0, 1, 1], [300, 600], [400, 300]), [125, 0, 150, 300]);
});

test("a thing is named if it is known, and pointed at in its middle", () => {
  assert.equal(thingName({ label: "mug", known: true }), "mug");
  assert.equal(thingName({ label: "mug", known: false }), null);
  assert.deepEqual(middleOf([0.5, 0.25, 0.25, 0.5]), [0.625, 0.5]);
});

test("shots are of the thing that was tapped, and of no other one once it has gone", () => {
  const scene = { state: "shown" }, duck = { id: 2, box: [0.25, 0.25, 0.5, 0.5] };
  const shown = (things, chosenThing) => chosenPlace({ deviceCamera: { scene, things }, chosenThing });
  assert.deepEqual(shown([duck], null), {}, "the one in the middle");
  assert.deepEqual(shown([duck], 2), { at: [0.5, 0.5] });
  assert.equal(shown([duck], 1), null);
  for (const state of ["none", "moved"]) {
    assert.equal(chosenPlace({ deviceCamera: { scene: { state }, things: [] }, chosenThing: 1 }), null, "nor of a whole frame");
  }
});

test("while the empty place is looked at, the page says that it must stay clear", () => {
  for (const state of ["none", "shown", "moved", "unusable"]) assert.equal(sceneText({ state }, true), "sceneLooking");
  assert.deepEqual(["none", "shown", "moved", "unusable"].map((state) => sceneText({ state }, false)),
    ["sceneNone", "sceneShown", "sceneNone", "sceneNone"]);
});

test("a region is drawn in the picture, wherever the view shows it", () => {
  const size = [1600, 900], view = [400, 300];
  assert.deepEqual(placeInPicture([200, 150], size, view), [0.5, 0.5]);
  assert.deepEqual(placeInPicture([0, 10], size, view), [0, 0], "above the picture is its edge");
  assert.deepEqual(regionBetween([0.75, 0.5], [0.25, 0.75]), [0.25, 0.5, 0.5, 0.25]);
  assert.equal(regionBetween([0.5, 0.5], [0.51, 0.9]), null, "a tap");
});

test("keys move a region and change its size, and keep it in the picture", () => {
  const pressed = (keys, isResized) => keys.reduce((region, key) => regionAfter(key, region, isResized), MIDDLE);
  const rounded = (region) => region.map((share) => Math.round(1000 * share) / 1000);
  const times = (count, key) => Array(count).fill(key);
  assert.deepEqual(rounded(pressed(["ArrowRight", "ArrowUp"], false)), [0.3, 0.2, 0.5, 0.5]);
  assert.deepEqual(rounded(pressed([...times(20, "ArrowRight"), ...times(20, "ArrowDown")], false)), [0.5, 0.5, 0.5, 0.5]);
  assert.deepEqual(rounded(pressed([...times(20, "ArrowRight"), ...times(20, "ArrowUp")], true)), [0.25, 0.25, 0.75, 0.05]);
  assert.equal(regionAfter("Tab", MIDDLE, false), null);
});

test("what lies in several regions is cut out of what is dimmed once", () => {
  const regions = [[0, 0, 4, 4], [2, 2, 4, 4], [5, 0, 2, 9], [1, 1, 1, 1], [0, 0, 4, 4]];
  const holds = ([x, y, width, height], column, row) =>
    column >= x && column < x + width && row >= y && row < y + height;
  const count = (parts, column, row) => parts.filter((part) => holds(part, column, row)).length;
  for (const place of Array(100).keys()) {
    const [column, row] = [place % 10, Math.floor(place / 10)];
    assert.equal(count(disjoint(regions), column, row), Math.min(count(regions, column, row), 1), `${column}, ${row}`);
  }
});

test("the name of a small region goes where the view has room for it", () => {
  const view = [400, 300];
  assert.deepEqual(nameSides([0, 10, 20, 20], view), { leftmost: true, topmost: true });
  assert.deepEqual(nameSides([380, 280, 20, 20], view), { leftmost: false, topmost: false });
  assert.deepEqual(nameSides([0, 0, 400, 150], view), { leftmost: false, topmost: false }, "a wide one's is inside");
});

test("the name of a thing goes to the right where the view has room for it", () => {
  assert.ok(hasNameRoom([0, 10, 20, 20], [400, 300]) && hasNameRoom([256, 10, 20, 20], [400, 300]));
  assert.ok(!hasNameRoom([257, 10, 20, 20], [400, 300]), "it would be cut off");
});

test("what is analysed is the regions, all things before the empty place, or the largest square", () => {
  const box = [0, 0, 1, 0.5], camera = { scene: { state: "none" } };
  const state = { deviceChosen: true, regions: [], deviceCamera: camera };
  for (const size of [[1600, 900], [640, 480], [300, 600], [500, 500]]) {
    const [[left, top, width, height]] = analysedParts(state, size);
    assert.equal(Math.round(width * size[0]), Math.round(height * size[1]), "a square");
    assert.ok(Math.abs(2 * left + width - 1) < 1e-9 && Math.abs(2 * top + height - 1) < 1e-9, "in the middle");
  }
  assert.deepEqual(analysedParts({ ...state, deviceCamera: { scene: { state: "shown" } } }, [1600, 900]), []);
  assert.deepEqual(analysedParts({ ...state, regions: [{ name: "shelf", box }] }, [1600, 900]), [box]);
  assert.equal(analysedParts({ ...state, deviceChosen: false, regions: [{ name: "shelf", box }] }, [4, 4]).length, 1);
});
