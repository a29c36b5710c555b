// Requests to the service, with its token, which is asked for once.
import { ask } from "./dialog.js";
import { showError, shownError } from "./dom.js";
import { message, ofFile } from "./language.js";
import { refusalText } from "./refusals.js";
import { browserStorage, tabStorage } from "./storage.js";
import { store } from "./store.js";

// Below the page's own address: a proxy may serve it under a path.
export const api = (path) => `api/v1/${path}`;
export const shotsPath = (label) => `shots/${encodeURIComponent(label)}`;
export const classPath = (label) => `classes/${encodeURIComponent(label)}`;

// After so long without an answer, the page says so, and goes on waiting.
const SLOW_ANSWER_MS = 2000;

const FIRST_PATHS = ["events", "status"].map(api);

let question = null;
// Whether the question for the token was closed without one. The page then asks for nothing by itself until it is loaded
// again: the question would come back every two seconds.
let isDeclined = false;
// A token that was typed is forgotten with the tab; one that came with the address stays with the phone once the service
// has taken it. Until then it is `offered`: any site may link to the page with a wrong one, which must not replace it.
const storedToken = () => tabStorage.get("offered") ?? tabStorage.get("token") ?? browserStorage.get("token");

// Whether a header can carry it.
const isToken = (text) => /^[\x21-\x7e]+$/.test(text);

// The token in the page's address, where `orco serve --phone` puts it; null if none is there.
export const tokenInAddress = () => new URLSearchParams(location.hash.slice(1)).get("token");

// Takes the token out of the page's address, for the next requests; says whether one was there.
export function takeTokenFromAddress() {
  const token = tokenInAddress();
  if (!token) return false;
  if (isToken(token)) tabStorage.set("offered", token);
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

// The service took this token: one that came with the address is kept. Only answers to the page's first requests count:
// a proxy may put a token of its own in the place of the page's for some paths, such as the camera's picture.
function keepToken(token, path) {
  if (!token || tabStorage.get("offered") !== token || !FIRST_PATHS.includes(path)) return;
  browserStorage.set("token", token);
  tabStorage.remove("token");
  tabStorage.remove("offered");
}

// Asks for the token. There is no need to where another request has brought a new one meanwhile, or where the address
// brought the wrong one and another is kept. A quiet request does not ask, but throws, once the question was closed.
async function renewToken(used, { quiet, isTokenLeftOut }) {
  if (storedToken() !== used) return;
  if (used && tabStorage.get("offered") === used) {
    tabStorage.remove("offered");
    if (storedToken()) return;
  }
  const reason = isTokenLeftOut ? "tokenOfProxy" : used ? "tokenWrong" : "token";
  const asked = `${message(reason)} ${message("tokenWhere")}`;
  if (quiet && isDeclined) throw new Error(asked);
  question ??= ask(asked, "").finally(() => { question = null; });
  const given = await question;
  isDeclined = given === null;
  if (isDeclined) {
    showError(message("tokenDeclined"));
    throw new Error(asked);
  }
  // What no header can carry is sent as "none": the service refuses that, and the question comes again.
  tabStorage.set("token", isToken(given.trim()) ? given.trim() : "none");
}

// Requests that were reported as slow.
const slow = new Set();

// The answer to a request. Unless the request is quiet, it is shown that none comes, or not soon; messages of other
// requests stay.
async function answered(request, { quiet, name }) {
  if (quiet) return request;
  const timer = setTimeout(() => {
    slow.add(request);
    if (!shownError()) showError(message("noAnswerYet"));
  }, SLOW_ANSWER_MS);
  try {
    const response = await request;
    if (slow.delete(request) && !slow.size && shownError() === message("noAnswerYet")) showError();
    return response;
  } catch (error) {
    showError(error.refusal ? ofFile(name, refusalText(error.refusal)) : message("notReached"));
    throw error;
  } finally {
    clearTimeout(timer);
    slow.delete(request);
  }
}

// Browsers report a missing service and a changed file alike. problems.js translates this.
const GONE = "the file was changed or removed after it was chosen: choose it again";
// An answer without the service's words is a proxy's; over HTTP/2 it has no words at all. problems.js translates this.
const ofProxy = ({ status }) => ({
  error: `a proxy answered with ${status} instead of the service${status < 500 ? "" : ": is the service running?"}`,
  code: status === 413 ? "body_too_large" : undefined,
});
const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

// Sends a request with a body of JSON or a Blob. Its error is shown, with the file's `name` if it has one, unless it is
// quiet, and thrown. It ends after `limitMs` milliseconds without an answer, if these are given. `isTokenLeftOut` if the
// request comes again, without the token.
export async function call(method, path, body, { quiet = false, name, limitMs, isTokenLeftOut = false } = {}) {
  const stored = storedToken();
  const token = isTokenLeftOut ? null : stored;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const isFile = body instanceof Blob;
  // What a file is, the service sees; browsers go by its name, and know less.
  if (body !== undefined) headers["Content-Type"] = isFile ? "application/octet-stream" : "application/json";
  const sent = body === undefined || isFile ? body : JSON.stringify(body);
  const signal = limitMs && AbortSignal.timeout(limitMs);
  const fetched = fetch(path, { method, headers, body: sent, signal }).catch(async (error) => {
    if (isFile && !await isReadable(body)) throw Object.assign(error, { refusal: { error: GONE } });
    // One that was ended here says nothing about the service.
    if (error instanceof TypeError) store.update({ missed: store.state.missed + 1 });
    throw error;
  });
  const response = await answered(fetched, { quiet, name });
  if (response.ok) {
    keepToken(token, path);
    return response;
  }
  const said = await response.json().catch(() => null);
  if (response.status === 401 && said?.code === "unauthorized") {
    await renewToken(stored, { quiet, isTokenLeftOut });
    return call(method, path, body, { quiet, name, limitMs });
  }
  // A proxy wants a password of its own, which browsers send only where the page sends no token.
  if (response.status === 401 && token) return call(method, path, body, { quiet, name, limitMs, isTokenLeftOut: true });
  const refusal = said?.error ? said : ofProxy(response);
  if (!quiet) showError(ofFile(name, refusalText(refusal)));
  throw Object.assign(new Error(refusal.error), { status: response.status, refusal });
}

export const get = async (path, options) => (await call("GET", api(path), undefined, options)).json();

// A change that people asked for; the page shows its error, and its success by an event. Whether it was made.
export async function change(method, path, body) {
  showError();
  return call(method, api(path), body).then(() => true, () => false);
}

const newest = {};

// Begins a request of a kind. Returns a function that says whether it is still the newest: answers may overtake one
// another.
export function beginRequest(kind) {
  const number = newest[kind] = (newest[kind] ?? 0) + 1;
  return () => number === newest[kind];
}
