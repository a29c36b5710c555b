// Where things are drawn over a picture.
import assert from "node:assert/strict";
import test from "node:test";

import { middleOf, placeInView, thingName } from "../selectors.js";

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
