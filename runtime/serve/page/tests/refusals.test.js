// Refusals of the service and failures of changes: by their codes, in both languages.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test, { afterEach } from "node:test";

import { setLanguage } from "../language.js";
import { refusalText, refusals } from "../refusals.js";

afterEach(() => setLanguage("en"));

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const codes = JSON.parse(read("../../openapi.json")).components.schemas.ErrorCode["x-extensible-enum"];

// Codes that the page never meets, or whose sentence holds what people need to know.
const WITHOUT_TEXT = [
  // Mistakes of programs; for the token, the page asks.
  "bad_request", "unauthorized", "cross_origin", "host_not_allowed", "unknown_path", "method_not_allowed", "unsupported_encoding",
  "unknown_model",
  // The sentence says which thread is down.
  "degraded",
  // The page offers no such thing then.
  "no_border", "no_sightings",
];

test("every code has a text, or is left out on purpose", () => {
  assert.deepEqual(codes.filter((code) => !(code in refusals)).sort(), [...WITHOUT_TEXT].sort());
  assert.deepEqual(Object.keys(refusals).filter((code) => !codes.includes(code)), [], "there is no such code");
});

test("every text is German at least, and takes only values that its code has", () => {
  const rows = read("../../../../docs/src/reference/http.md").matchAll(/^\| `(\w+)` \| \d+ \| (.*?) \|/gm);
  const values = new Map([...rows].map(([, code, names]) => [code, [...names.matchAll(/\w+/g)].map(([name]) => name)]));
  for (const [code, texts] of Object.entries(refusals)) {
    assert.ok(texts.de, code);
    for (const text of Object.values(texts)) {
      for (const [, name] of text.matchAll(/\{(\w+)\}/g)) assert.ok(values.get(code).includes(name), `${code}: ${name}`);
    }
  }
});

// What the service says, and parts of what the page says instead; of the English sentence where it says that.
const said = [
  { error: "the picture is neither a JPEG nor a PNG nor a WebP picture", code: "not_a_picture", en: /^This is not/, de: /weder ein JPEG/ },
  { error: "the picture is a HEIC file, which cannot be read: save it as JPEG", code: "unsupported_picture", values: { format: "HEIC" }, en: /^HEIC files/, de: /^HEIC-Dateien/ },
  { error: "the picture is damaged: its end is missing", code: "picture_damaged", values: { reason: "its end is missing" }, en: /^The picture is damaged\.$/, de: /beschädigt/ },
  { error: "the content type must be image/jpeg or image/png", code: "unsupported_media_type", values: { expected: ["image/jpeg"] }, en: /^Only pictures/, de: /^Nur Bilder/ },
  { error: "the body is too large: at most 8388608 bytes are taken", code: "body_too_large", values: { limit: 8388608 }, en: /too large\.$/, de: /zu groß/ },
  { error: '"mug" is known already; choose another label', code: "label_taken", values: { label: "mug" }, en: /^“mug” is known already: /, de: /„mug“ ist schon bekannt/ },
  { error: 'no class has the label "car_side"', code: "unknown_class", values: { label: "car_side" }, de: /„car side“ ist nicht bekannt/ },
  { error: 'the label "=" cannot be used: ...', code: "invalid_label", values: { label: "=" }, en: /^The name “=”/, de: /„=“ ist nicht erlaubt/ },
  { error: "the label cannot be used: it is too long", code: "invalid_label", values: { label: "ж".repeat(600) }, en: /^The name “ж{64}…” cannot/, de: /„ж{64}…“ ist nicht erlaubt/ },
  { error: '"cup" came with the bundle; only learned classes can be changed or exported', code: "base_class", values: { label: "cup" }, en: /^“cup” is known from the start/, de: /von Anfang an/ },
  { error: '"mug" is being changed already, by job 1-2', code: "class_busy", values: { label: "mug", job: "1-2" }, de: /„mug“ wird gerade/ },
  { error: "no free target is left: forget a class first", code: "no_free_target", values: { wanted: 1, free: 0 }, en: /^There is no room/, de: /kein Platz/ },
  { error: 'this is the last shot of "mug"; forget the class instead', code: "last_shot", values: { label: "mug" }, de: /letzte Aufnahme von „mug“/ },
  { error: 'the class "mug" would have 1001 shots, but a class may have at most 1000', code: "too_many_shots", values: { label: "mug", shots: 1001, limit: 1000 }, de: /1001 Aufnahmen, höchstens 1000/ },
  { error: "there is nothing to undo", code: "nothing_to_undo", en: /^There is nothing to undo\.$/, de: /nichts zurückzunehmen/ },
  { error: "the last change is entry 4, not entry 3; nothing was changed", code: "history_changed", values: { entry: 3, last: 4 }, en: /entry 4\).* try again/, de: /Eintrag 4/ },
  { error: "too many requests wait for an answer; try again", code: "too_many_requests", de: /zu viel zu tun/ },
  { error: "the camera is not there, trying again: No such file", code: "camera_unavailable", values: { reason: "No such file" }, de: /Kamera ist nicht da/ },
  { error: "view 2 of the empty place does not look like the others: ...", code: "scene_not_empty", values: { view: 2 }, en: /^Clear the place/, de: /^Bitte den Platz leer räumen.*Hand im Bild.*wackelt.*flackernden Lampe/ },
  { error: "view 1 of the empty place is black: is the lens covered, or the light off?", code: "scene_dark", values: { view: 1 }, de: /schwarz/ },
  { error: "the place is empty: put the thing in view", code: "nothing_in_view", de: /Platz ist leer/ },
  { error: "nothing was learned, so there is nothing to back up", code: "nothing_to_back_up", de: /nichts zu sichern/ },
  { error: "another file is being written; try again in a moment", code: "transfer_busy", de: /schon eine Datei/ },
  { error: "2 backups are being sent already; try again when one has arrived", code: "too_many_backups", values: { limit: 2 }, de: /^2 Sicherungen/ },
  { error: "no backup: a change is being made; ask again when it is done", code: "state_busy", de: /Gerade wird etwas geändert/ },
  { error: "no backup: the backup cannot be read or written: No space left", code: "backup_failed", values: { reason: "No space left" }, de: /No space left/ },
  { error: '"mug" has a label that no pack may have: rename it first', code: "label_not_exportable", values: { label: "mug" }, de: /„mug“ .* umbenennen/ },
  { error: "the pack cannot be imported: it is not signed", code: "pack_unsigned", en: /only signed/, de: /nur signierte/ },
  { error: "the pack cannot be imported: it is signed with another key", code: "pack_other_key", en: /another key/, de: /anderen Schlüssel/ },
  { error: "the pack cannot be imported: its signature does not match", code: "pack_altered", en: /after it was signed/, de: /Signatur/ },
  { error: "the pack cannot be imported: its checksum does not match", code: "pack_damaged", en: /damaged/, de: /keine Datei .* beschädigt/ },
  { error: "the pack cannot be imported: it has format version 9", code: "pack_version", values: { version: 9, supported: 1 }, en: /another version/, de: /anderen Version/ },
  { error: "the pack cannot be imported: it holds 2000 shots", code: "pack_too_many_shots", values: { shots: 2000, limit: 1000 }, en: /2000 shots/, de: /2000 Aufnahmen/ },
  { error: "the pack cannot be imported: it was made with another bundle", code: "other_bundle", values: { bundle: "x" }, en: /another bundle/, de: /Bündel/ },
];

test("the page says in its language what the service refuses", () => {
  for (const { en, de, ...refusal } of said) {
    setLanguage("de");
    assert.match(refusalText(refusal), de, refusal.code);
    setLanguage("en");
    const sentence = refusal.error[0].toUpperCase() + refusal.error.slice(1);
    if (en) assert.match(refusalText(refusal), en, refusal.code);
    else assert.ok(refusalText(refusal).startsWith(sentence), refusal.code);
  }
});

test("a code of a later release, or none, loses no sentence", () => {
  for (const code of ["of_a_later_release", undefined]) {
    const refusal = { error: "something of a later release", code };
    setLanguage("de");
    assert.equal(refusalText(refusal), "Der Dienst meldet auf Englisch: something of a later release");
    setLanguage("en");
    assert.equal(refusalText(refusal), "Something of a later release.");
  }
});
