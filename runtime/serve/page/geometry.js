// Places and rectangles of a picture, and of the view that shows it.

const LEAST_REGION = 0.05;

// A part of a picture, in shares of its sides, as pixels of a view into which the whole picture fits.
export function placeInView([left, top, width, height], [pictureWidth, pictureHeight], [viewWidth, viewHeight]) {
  const scale = Math.min(viewWidth / pictureWidth, viewHeight / pictureHeight);
  const [shownWidth, shownHeight] = [pictureWidth * scale, pictureHeight * scale];
  return [(viewWidth - shownWidth) / 2 + left * shownWidth, (viewHeight - shownHeight) / 2 + top * shownHeight,
    width * shownWidth, height * shownHeight];
}

// The inverse: a view's pixel as a place in the picture, in shares of its sides; beyond the picture, its nearest edge.
export function placeInPicture([x, y], size, view) {
  const [left, top, width, height] = placeInView([0, 0, 1, 1], size, view);
  return [(x - left) / width, (y - top) / height].map((share) => Math.min(1, Math.max(0, share)));
}

// The rectangle between two places of a picture; nothing if it is hardly more than a tap.
export function regionBetween([x, y], [otherX, otherY]) {
  const [width, height] = [Math.abs(x - otherX), Math.abs(y - otherY)];
  return width < LEAST_REGION || height < LEAST_REGION ? null : [Math.min(x, otherX), Math.min(y, otherY), width, height];
}

// Where a region begins that is drawn by keys, and how far a key moves it.
export const MIDDLE = [0.25, 0.25, 0.5, 0.5];
const STEP = 0.05;

// A region after an arrow key, which moves it, or its right and lower edges, and keeps it in the picture; none after
// other keys.
export function regionAfter(key, [left, top, width, height], isResized) {
  const [across, down] = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[key] ?? [];
  if (across === undefined) return null;
  const within = (value, low, high) => Math.min(high, Math.max(low, value));
  return isResized
    ? [left, top, within(width + across, LEAST_REGION, 1 - left), within(height + down, LEAST_REGION, 1 - top)]
    : [within(left + across, 0, 1 - width), within(top + down, 0, 1 - height), width, height];
}

// Rectangles that cover what these cover, without overlap.
export function disjoint(rectangles) {
  const parts = [];
  for (const rectangle of rectangles) {
    let rest = [rectangle];
    for (const taken of parts) rest = rest.flatMap((part) => without(part, taken));
    parts.push(...rest);
  }
  return parts;
}

// What is left of a rectangle without another one: the parts above, below, left and right of it.
function without([x, y, width, height], [left, top, across, down]) {
  const within = (place, low, length) => Math.min(Math.max(place, low), low + length);
  const [from, to] = [left, left + across].map((place) => within(place, x, width));
  const [upper, lower] = [top, top + down].map((place) => within(place, y, height));
  const parts = [[x, y, width, upper - y], [x, lower, width, y + height - lower],
    [x, upper, from - x, lower - upper], [to, upper, x + width - to, lower - upper]];
  return parts.filter((part) => part[2] > 0 && part[3] > 0);
}

// Where the name of a region may go beyond it and stay in the view: to the right in the left half, and below at the
// top, where a name needs up to 96 pixels.
export const nameSides = ([x, y, width, height], [viewWidth]) =>
  ({ leftmost: 2 * x + width < viewWidth, topmost: y + height < 96 });

// Whether the name of a thing, which may need 144 pixels, has room in the view to the right of where the thing begins.
export const hasNameRoom = ([x], [viewWidth]) => x + 144 <= viewWidth;

export const middleOf = ([left, top, width, height]) => [left + width / 2, top + height / 2];
