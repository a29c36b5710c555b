// Browsers that keep nothing for a page: all cookies are blocked, or the storage is full.
import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { storedDecision } from "../consent.js";
import { api, call, takeTokenFromAddress } from "../service.js";
import { browserStorage } from "../storage.js";

const blocked = () => { throw new DOMException("Access is denied for this document.", "SecurityError"); };
beforeEach(() => {
  for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(globalThis, name, { get: blocked, configurable: true });
  }
});

test("what the browser does not keep is held while the page is open", () => {
  assert.equal(browserStorage.get("language"), null);
  browserStorage.set("language", "de");
  assert.equal(browserStorage.get("language"), "de");
  browserStorage.remove("language");
  assert.equal(browserStorage.get("language"), null);
});

test("a page without storage has no consent yet, and takes its token", async () => {
  assert.equal(storedDecision(), null);
  globalThis.location = { hash: "#token=abc", pathname: "/", search: "" };
  globalThis.history = { replaceState: () => {} };
  assert.equal(takeTokenFromAddress(), true);
  let sent;
  globalThis.fetch = async (_path, request) => { sent = request.headers.Authorization; return { ok: true, status: 200 }; };
  // It stays until the page is closed: the second request brings it, too.
  for (let request = 0; request < 2; request++) {
    sent = undefined;
    await call("GET", api("status"), undefined, { quiet: true });
    assert.equal(sent, "Bearer abc");
  }
  assert.equal(browserStorage.get("token"), "abc");
});

test("what a full storage refuses is held, and an older value is not told in its place", () => {
  const kept = new Map([["collect", "yes"]]);
  const full = { getItem: (key) => kept.get(key) ?? null, setItem: blocked, removeItem: (key) => kept.delete(key) };
  Object.defineProperty(globalThis, "localStorage", { value: full, configurable: true });
  assert.equal(storedDecision(), true);
  browserStorage.set("collect", "no");
  assert.equal(storedDecision(), false);
});
