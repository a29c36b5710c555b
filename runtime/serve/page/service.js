// Requests to the service, with its token, which is asked for once.
import { ask } from "./dialog.js";
import { showError } from "./dom.js";
import { message } from "./language.js";

export const api = (path) => `/api/v1/${path}`;
export const shotsPath = (label) => `shots/${encodeURIComponent(label)}`;
export const classPath = (label) => `classes/${encodeURIComponent(label)}`;

let question = null;
const storedToken = () => sessionStorage.getItem("token");

// Asks for the token unless another request has brought a new one meanwhile.
async function renewToken(used) {
  if (storedToken() !== used) return;
  question ??= ask(message(used ? "tokenWrong" : "token"), "").finally(() => { question = null; });
  const given = await question;
  if (given === null) throw new Error(message("token"));
  // A header cannot carry everything; the service refuses what is sent in its place, and the question comes again.
  const isToken = /^[\x21-\x7e]+$/.test(given.trim());
  sessionStorage.setItem("token", isToken ? given.trim() : "none");
}

// Sends a request with a body of JSON or a Blob. Its error is shown, unless it is quiet, and thrown.
export async function call(method, path, body, { quiet = false } = {}) {
  const token = storedToken();
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const isFile = body instanceof Blob;
  if (body !== undefined) headers["Content-Type"] = isFile ? body.type : "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined || isFile ? body : JSON.stringify(body) });
  if (response.status === 401) {
    await renewToken(token);
    return call(method, path, body, { quiet });
  }
  if (response.ok) return response;
  const { error = response.statusText } = await response.json().catch(() => ({}));
  if (!quiet) showError(error);
  throw Object.assign(new Error(error), { status: response.status });
}

export const get = async (path, options) => (await call("GET", api(path), undefined, options)).json();

// A change that people asked for; the page shows its error, and its success by an event.
export async function change(method, path, body) {
  showError();
  await call(method, api(path), body).catch(() => {});
}
