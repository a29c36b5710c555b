// The service's own camera: its live picture, and what it shows. Pictures are fetched one by one, since an <img> cannot
// send the token.
import { $, api, call, pause, say } from "./common.js";

const AGAIN_MS = 1000;

export const device = { there: false, chosen: false, state: null };

let unreadable = 0, showAnswer = () => {};
const radio = (value) => document.querySelector(`#sources input[value=${value}]`);

// `changed` is called when the choice was made, `answered` with the classes that the camera shows.
export function startDevice(changed, answered) {
  showAnswer = answered;
  for (const value of ["device", "browser"]) {
    radio(value).onchange = () => { chooseDevice(value === "device"); changed(value); };
  }
  watch();
}

export function chooseDevice(chosen) {
  device.chosen = chosen && device.there;
  radio(device.chosen ? "device" : "browser").checked = true;
  $("live").hidden = !device.chosen;
  if (device.chosen) hearDevice(device.state);
}

// The service has a camera: it is what is looked at first. Returns whether that is new.
export function findDevice(state) {
  if (!state || device.there) return false;
  device.there = true;
  device.state = state;
  $("sources").hidden = false;
  return true;
}

// What stands in place of a picture.
export function showNothing() {
  const shown = !$("video").hidden || !$("still").hidden;
  $("nothing").hidden = shown || (device.chosen && $("live").hasAttribute("src"));
  $("nothing").textContent = say(device.chosen ? "deviceWaiting" : "nothing");
}

export function hearDevice(state) {
  device.state = state;
  if (!device.chosen) return;
  showAnswer(state.matches, state.known);
  const isBad = state.unreadable > unreadable && state.unreadable_reason;
  unreadable = state.unreadable;
  const sentence = state.state === "away" ? say("deviceAway", state)
    : isBad ? say("deviceUnreadable", { reason: state.unreadable_reason }) : "";
  // What has not changed is not read out again.
  if ($("camera-error").textContent !== sentence) $("camera-error").textContent = sentence;
}

async function watch() {
  for (let last = 0; ;) {
    let rest = 200;
    if (device.chosen && !document.hidden) {
      try {
        const sent = await call("GET", `${api("camera.jpg")}?after=${last}`, undefined, true);
        const number = Number(sent.headers.get("orco-frame"));
        if (number !== last) {
          const before = $("live").src, picture = URL.createObjectURL(await sent.blob());
          $("live").src = picture;
          if (before) URL.revokeObjectURL(before);
          else showNothing();
        }
        last = number;
        rest = 0;
      } catch {
        // An old picture would be taken for a new one.
        URL.revokeObjectURL($("live").src);
        $("live").removeAttribute("src");
        showNothing();
        last = 0;
        rest = AGAIN_MS;
      }
    }
    await pause(rest);
  }
}
