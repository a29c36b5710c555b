// Questions, answered with the keyboard.
import assert from "node:assert/strict";
import test from "node:test";

import { REMOVE, ask } from "../dialog.js";
import { DOUBLE_CLICK_MS, sleep } from "../dom.js";

// The parts of the dialog; closing it gives the focus back, as browsers do.
function fakeDialog() {
  const elements = {};
  const element = () => ({ select: () => {}, replaceChildren: () => {}, setAttribute: () => {}, removeAttribute: () => {} });
  globalThis.document = { getElementById: (id) => (elements[id] ??= element()) };
  const { getElementById: $ } = globalThis.document;
  Object.assign($("dialog"), { showModal: () => {}, close: () => $("dialog").onclose() });
  $("dialog-yes").click = () => $("dialog-yes").onclick();
  return $;
}

const opened = () => new Promise((done) => setTimeout(done));

test("the key that answers a question does not press what asked it once more", async () => {
  const $ = fakeDialog(), answer = ask("New name?", "mug");
  await opened();
  $("dialog-value").value = "cup";
  let isPrevented = false;
  $("dialog-value").onkeydown({ key: "Enter", preventDefault: () => { isPrevented = true; } });
  assert.equal(await answer, "cup");
  assert.equal(isPrevented, true);
});

test("what is typed takes the place of the name that is there", async () => {
  const $ = fakeDialog();
  for (const [value, selected] of [["mug", "mug"], ["", null], [undefined, null]]) {
    let found = null;
    const isShown = new Promise((done) => { $("dialog").showModal = done; });
    $("dialog-value").select = () => { found = $("dialog-value").value; };
    const answer = ask("New name?", value);
    await isShown;
    assert.equal(found, selected, "a hidden field, or an empty one, is left alone");
    $("dialog").close();
    await answer;
  }
});

test("the key that ends the composition of a character answers nothing", async () => {
  const $ = fakeDialog(), answer = ask("New name?", "");
  await opened();
  const preventDefault = () => assert.fail("the character is lost");
  $("dialog-value").onkeydown({ key: "Enter", isComposing: true, preventDefault });
  // Safari ends the composition before it tells of the key.
  $("dialog-value").onkeydown({ key: "Enter", isComposing: false, keyCode: 229, preventDefault });
  $("dialog").close();
  assert.equal(await answer, null);
});

test("the key that asked a question does not answer it while it is held", async () => {
  const $ = fakeDialog(), answer = ask("Name of the region", "");
  await opened();
  $("dialog-value").value = "shelf";
  $("dialog-value").onkeydown({ key: "Enter", repeat: true, preventDefault: () => {} });
  $("dialog").close();
  assert.equal(await answer, null);
});

test("the second half of a double click does not answer the question that follows", async (t) => {
  t.mock.method(performance, "now", () => 0);
  const $ = fakeDialog(), first = ask("Forget it?", undefined, { remove: "Forget it for good" });
  await opened();
  $("dialog-remove").onclick();
  assert.equal(await first, REMOVE);
  const second = ask("For good?");
  await opened();
  assert.equal($("dialog-yes").disabled, true);
  await sleep(DOUBLE_CLICK_MS + 50);
  assert.equal($("dialog-yes").disabled, false);
  $("dialog-yes").click();
  assert.equal(await second, true);
});
