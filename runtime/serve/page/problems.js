// What the service says without a code, in the page's language: warnings of changes, and problems of its camera, the
// empty place and its disk. The service says them in English.
import { currentLanguage, fill } from "./language.js";

// refusals.js has these three, too.
export const notPicture = { en: "This is not a picture in JPEG, PNG or WebP.", de: "Das Bild ist weder ein JPEG noch ein PNG noch ein WebP." };
export const unsupported = {
  en: "{format} files cannot be read: save the picture as JPEG or PNG.",
  de: "{format}-Dateien sind nicht lesbar: Bitte als JPEG oder PNG speichern." };
export const damaged = { en: "The picture is damaged.", de: "Das Bild ist beschädigt." };

// What a sentence is like, and how it is said in each language; {1} is what its first group held, {format} the group
// of that name. A language that is left out says it otherwise (below).
const sentences = [
  [/^is neither a JPEG .*$/, notPicture],
  [/^is an? (?<format>.+) file, which cannot be read.*$/, unsupported],
  [/^is damaged: .*$/, damaged],
  [/^is a WebP picture of (.+) pixels, too large .*$/, {
    de: "Das Bild ist zu groß für ein WebP ({1} Bildpunkte): Bitte als JPEG speichern oder verkleinern." }],
  [/^is empty$/, { de: "Die Datei ist leer." }],
  [/^is a Git LFS pointer.*$/, {
    de: "Die Datei ist nur ein Verweis von Git LFS: Bitte „git lfs pull“ ausführen." }],
  [/^holds more metadata .*$/, {
    de: "Die Datei enthält zu viele Zusatzdaten (etwa EXIF): Bitte ohne sie speichern." }],
  [/^is too large.*$/, { de: "Das Bild ist zu groß." }],
  [/^no answer names "(.+)", although.*$/, {
    en: "No answer names “{1}”, since they name only what it learned: learn it in place of the one from the start, or have answers name all it knows (Settings).",
    de: "Keine Antwort nennt „{1}“, denn sie nennen nur Gelerntes: Anstelle des Bekannten lernen, oder in den Einstellungen alles Bekannte nennen lassen." }],
  [/^the class is purged, but its sightings are left: (.*); remove them once.*$/s, {
    en: "Pictures of it are still in the list of what was seen, which cannot be written just now ({1}). Remove that list later, under Review.",
    de: "In der Liste des Gesehenen stehen noch Bilder davon; sie kann gerade nicht geschrieben werden ({1}). Bitte die Liste später entfernen." }],
  [/^the camera seems to have been moved.*$/, {
    en: "The camera seems to have been moved, or the light is quite another: show it the empty place again (Settings).",
    de: "Die Kamera wurde wohl verschoben, oder das Licht ist ganz anders: Bitte den leeren Platz noch einmal zeigen (Einstellungen)." }],
  [/^the empty place probably .*$/, {
    en: "The empty place was probably shown with a thing that is gone now: show it again (Settings).",
    de: "Der leere Platz wurde wohl mit einem Ding gezeigt, das nun weg ist: Bitte ihn noch einmal zeigen (Einstellungen)." }],
  [/^the empty place was shown with another size .*, (\d+) x (\d+): .*$/, {
    en: "The empty place was shown with another size than the camera’s pictures have now ({1} x {2}): show it again (Settings).",
    de: "Der leere Platz wurde in einer anderen Größe gezeigt als der jetzigen der Kamera ({1} x {2}): Bitte ihn noch einmal zeigen (Einstellungen)." }],
  [/^the empty place in .* cannot be used.*$/, { de: "Der gespeicherte leere Platz ist beschädigt: Bitte ihn noch einmal zeigen (Einstellungen)." }],
  [/^the empty place in .* cannot be read or written: (.*)$/s, { de: "Der leere Platz kann nicht gelesen oder gespeichert werden ({1})." }],
  [/^the file was changed or removed .*$/, { de: "Die Datei wurde nach der Auswahl geändert oder entfernt: Bitte neu auswählen." }],
  [/^a proxy answered with (\d+) .*\?$/, { de: "Statt des Dienstes hat ein Proxy mit {1} geantwortet: Läuft der Dienst?" }],
  [/^a proxy answered with (\d+) .*$/, { de: "Statt des Dienstes hat ein Proxy mit {1} geantwortet." }],
  [/^two regions have one name$/, {
    en: "There is a region of that name already: choose another one.",
    de: "Einen Bereich mit diesem Namen gibt es schon: Bitte einen anderen wählen." }],
  [/^"(.*)" is no name for a region$/s, {
    en: "“{1}” cannot be the name of a region: it may not hold “=”, and “unknown” and “empty” are taken.",
    de: "„{1}“ kann kein Bereich heißen: Der Name darf kein „=“ enthalten; „unknown“ und „empty“ sind vergeben." }],
  [/^a camera has at most (\d+) regions,.*$/, {
    en: "There are {1} regions already: remove one first.",
    de: "Es gibt schon {1} Bereiche: Bitte zuerst einen entfernen." }],
  [/^the disk of (.+) does not answer$/, { de: "Der Datenträger von {1} antwortet nicht." }],
  [/^nothing can be (?:learned|written|saved).*$/, { de: "Es kann nichts gespeichert werden: Der Datenträger ist voll oder schreibgeschützt." }],
];

const asSentence = (text) => text.replace(/^./u, (first) => first.toUpperCase()).replace(/[^.?!…]$/u, "$&.");

// How a language says what is not listed.
const others = {
  en: asSentence,
  de: (sentence) => `Der Dienst meldet auf Englisch: ${sentence}`,
};

// What the page says where the service says `sentence`.
export function problem(sentence) {
  const language = currentLanguage(), said = sentence.replace(/^the (camera's )?picture (?=is |holds )/, "");
  for (const [pattern, texts] of sentences) {
    const found = texts[language] && pattern.exec(said);
    if (found) return fill(texts[language], { ...found, ...found.groups });
  }
  return (others[language] ?? others.en)(sentence);
}
