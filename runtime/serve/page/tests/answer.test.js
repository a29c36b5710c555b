// How sure an answer is, in words.
import assert from "node:assert/strict";
import test from "node:test";

globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };
const { alternatives, certainty, startAnswer } = await import("../answer.js");
const { showError } = await import("../dom.js");
const { message, setLanguage } = await import("../language.js");
const { NO_ANSWER, store } = await import("../store.js");

const { setTimeout } = globalThis;
// The camera is watched for as long as the page is open.
globalThis.setTimeout = (...timer) => setTimeout(...timer).unref();

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Gives the page all elements that it asks for, and returns them.
function showPage() {
  const elements = {};
  const element = () => ({ style: {}, setAttribute: () => {}, replaceChildren: () => {}, videoWidth: 4, videoHeight: 3 });
  const canvas = { getContext: () => ({ drawImage: () => {} }), toBlob: (done) => done(new Blob([])) };
  globalThis.document = { getElementById: (id) => (elements[id] ??= element()), createElement: () => canvas, hidden: false };
  return elements;
}

test("an answer is sure, probable, or a guess", () => {
  for (const language of ["en", "de"]) {
    setLanguage(language);
    const words = [1, 0.7, 0.2].map((probability) => message(certainty(probability)));
    assert.ok(new Set(words).size === 3 && words.every((word) => /^[a-z]+$/.test(word)), `${language}: ${words}`);
  }
  setLanguage("en");
  assert.deepEqual([1, 0.9, 0.89, 0.6, 0.59, 0].map(certainty), ["sure", "sure", "probably", "probably", "perhaps", "perhaps"]);
});

test("a few labels of which one is right are all named, a clear answer is not repeated", () => {
  assert.equal(alternatives(["mug"]), "");
  assert.equal(alternatives(undefined), "");
  const named = alternatives(["mug", "cup"]);
  assert.ok(named.includes("mug") && named.includes("cup") && named.includes(" or "), named);
});

test("what is wrong with a file is said when it is chosen, not with every change of classes", async () => {
  const elements = showPage();
  globalThis.fetch = async () => ({ ok: false, status: 400, json: async () => ({ code: "picture_damaged", error: "damaged" }) });
  startAnswer();
  store.update({ files: [new File([], "1.jpg")] });
  await pause(20);
  assert.equal(elements.error.textContent, "1.jpg: The picture is damaged.");
  showError();
  store.update({ classes: [{ label: "mug", learned: true }] });
  await pause(20);
  assert.equal(elements.error.textContent, "");
});

test("a request for an answer that is lost on the way is given up, and the next picture is sent", async () => {
  const { timeout } = AbortSignal;
  showPage();
  AbortSignal.timeout = (milliseconds) => timeout(Math.min(milliseconds, 50));
  let requests = 0;
  globalThis.fetch = (path, { signal }) => new Promise((_, reject) => {
    requests += 1;
    signal?.addEventListener("abort", () => reject(signal.reason));
  });
  const answer = { matches: [{ label: "mug", probability: 1 }], set: [], known: true };
  store.update({ files: [], stream: { getVideoTracks: () => [] }, answer });
  await pause(1500);
  assert.equal(store.state.answer, NO_ANSWER);
  assert.ok(requests > 1, `${requests} requests`);
  store.update({ stream: null });
  await pause(400);
  AbortSignal.timeout = timeout;
});

test("the end of a request for another picture leaves the answer to the one that is shown alone", async () => {
  showPage();
  const answerOf = (label) => ({ ok: true, json: async () => ({ matches: [{ label, probability: 1 }], set: [], known: true }) });
  const shown = () => store.state.answer.matches[0]?.label;
  const camera = { stream: { getVideoTracks: () => [] }, files: [] };
  const refused = { ok: false, status: 400, json: async () => ({ code: "picture_damaged", error: "damaged" }) };
  const ends = {
    "given up": ({ reject }) => reject(new DOMException("too late", "TimeoutError")),
    refused: ({ resolve }) => resolve(refused),
    answered: ({ resolve }) => resolve(answerOf("late")),
  };
  for (const [name, end] of Object.entries(ends)) {
    let late = null;
    globalThis.fetch = (path, { body }) => new Promise((resolve, reject) => {
      if (body.name) resolve(answerOf("cup"));
      else late = { resolve, reject };
    });
    store.update({ ...camera, answer: NO_ANSWER });
    while (!late) await pause(20);
    store.update({ stream: null, files: [new File([], "cup.jpg")] });
    await pause(20);
    assert.equal(shown(), "cup");
    end(late);
    await pause(20);
    assert.equal(shown(), "cup", `the camera's is ${name}`);

    late = null;
    globalThis.fetch = (path, { body }) => new Promise((resolve, reject) => {
      if (!body.name) resolve(answerOf("mug"));
      else late = { resolve, reject };
    });
    store.update({ stream: null, files: [new File([], "cup.jpg")] });
    await pause(20);
    store.update(camera);
    while (shown() !== "mug") await pause(20);
    const heard = [];
    store.subscribe(["answer"], () => heard.push(shown()));
    end(late);
    await pause(20);
    assert.ok(heard.every((label) => label === "mug"), `the file's is ${name}: ${heard}`);
  }
  showError();
  store.update({ stream: null });
  await pause(400);
});

test("an old answer does not stay beside the camera's picture where the service is not reached", async () => {
  showPage();
  const answer = { matches: [{ label: "mug", probability: 1 }], set: [], known: true };
  const after = async (response) => {
    globalThis.fetch = response;
    store.update({ files: [], stream: { getVideoTracks: () => [] }, answer });
    await pause(700);
    return store.state.answer;
  };
  const busy = { ok: false, status: 429, json: async () => ({ code: "too_many_requests", error: "busy" }) };
  assert.equal(await after(async () => busy), answer, "the next picture is answered");
  assert.equal(await after(() => Promise.reject(new TypeError("Failed to fetch"))), NO_ANSWER);
  assert.equal(await after(async () => ({ ok: false, status: 502, json: async () => null })), NO_ANSWER, "a proxy answers");
});
