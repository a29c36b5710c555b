// What all of the page uses: texts, elements, the service, questions.
import { texts } from "./texts.js";

export const $ = (id) => document.getElementById(id);

// ---- texts

export let words = texts.en;
// A label that is written from the right does not turn what stands beside it around.
export const isolated = (text) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);
// A number and its % stay on one line.
export const fill = (text, values = {}) =>
  text.replace(/(\d|\}) %/g, "$1\u00a0%").replace(/\{(\w+)\}/g, (all, key) => isolated(values[key] ?? all));
// One of something may have words of its own.
export const say = (key, values) => fill((values?.count === 1 && words[`${key}One`]) || (words[key] ?? key), values);
export const percent = (share) => Math.round(100 * share);

export function speak(language) {
  words = texts[language] ?? texts.en;
  document.documentElement.lang = $("language").value = texts[language] ? language : "en";
  document.querySelectorAll("[data-text]").forEach((node) => { node.textContent = say(node.dataset.text); });
  document.querySelectorAll("[data-label]").forEach((node) => node.setAttribute("aria-label", say(node.dataset.label)));
}

export function make(tag, values = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(values)) {
    if (key === "on") node.addEventListener("click", value);
    else if (key.startsWith("aria-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children);
  return node;
}

// ---- time, and hands

export const pause = (milliseconds) => new Promise((later) => setTimeout(later, milliseconds));
// The second half of a double click must not reach what the first has brought under the pointer.
export const DOUBLE_CLICK_MS = 500;
export const pressesKey = ({ key }) => key === " " || key === "Enter";
// Whatever was pressed is let go, here or elsewhere.
export function onRelease(then) {
  ["pointerup", "pointercancel", "keyup", "blur"].forEach((name) => window.addEventListener(name, then));
}

// ---- the service

let token = sessionStorage.getItem("token"), askedToken = null;

async function askToken(used) {
  if (token !== used) return;
  askedToken ??= ask(say(used ? "tokenWrong" : "token"), "").finally(() => { askedToken = null; });
  const given = await askedToken;
  if (given === null) throw new Error(say("token"));
  // What a header cannot carry is no token; the service says so of the one that is sent in its place.
  const isToken = /^[\x21-\x7e]+$/.test(given.trim());
  sessionStorage.setItem("token", (token = isToken ? given.trim() : "none"));
}

export async function call(method, path, body, quiet = false) {
  const used = token;
  const headers = used ? { Authorization: `Bearer ${used}` } : {};
  const isFile = body instanceof Blob;
  if (body !== undefined) headers["Content-Type"] = isFile ? body.type : "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined || isFile ? body : JSON.stringify(body) });
  if (response.status === 401) {
    await askToken(used);
    return call(method, path, body, quiet);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  if (!quiet) $("error").textContent = told.error ?? response.statusText;
  throw Object.assign(new Error(told.error ?? response.statusText), { status: response.status });
}

export const api = (path) => `/api/v1/${path}`;
export const get = async (path, quiet = false) => (await call("GET", api(path), undefined, quiet)).json();
export const of = (label) => api(`shots/${encodeURIComponent(label)}`);

export async function change(method, path, body) {
  $("error").textContent = "";
  await call(method, api(path), body).catch(() => {});
}

// ---- a question, one at a time

let asking = Promise.resolve();
export function ask(text, value, list) {
  asking = asking.catch(() => {}).then(() => new Promise((answer) => {
    const [dialog, field] = [$("dialog"), $("dialog-value")];
    $("dialog-text").textContent = text;
    field.hidden = value === undefined;
    field.value = value ?? "";
    if (list) field.setAttribute("list", list);
    else field.removeAttribute("list");
    $("dialog-yes").textContent = say("ok");
    let given = null;
    $("dialog-yes").onclick = () => { given = value === undefined ? true : field.value; dialog.close(); };
    $("dialog-no").onclick = () => dialog.close();
    field.onkeydown = (event) => { if (event.key === "Enter") $("dialog-yes").click(); };
    dialog.onclose = () => answer(given);
    dialog.showModal();
  }));
  return asking;
}
