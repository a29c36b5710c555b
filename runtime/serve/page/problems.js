// Sentences of the service in the page's language: it says what is wrong in English, and in the words of programs.
import { currentLanguage, fill } from "./language.js";

// What a sentence is like, and how it is said in each language; {1} and so on are what its groups held. A language that
// is left out says it otherwise (below).
const sentences = [
  [/^(?:the (?:camera's )?picture )?is neither a JPEG .*$/, {
    en: "This is not a picture in JPEG, PNG or WebP.",
    de: "Das Bild ist weder ein JPEG noch ein PNG noch ein WebP." }],
  [/^(?:the (?:camera's )?picture )?is a (.+) file, which cannot be read.*$/, {
    en: "{1} files cannot be read: save the picture as JPEG or PNG.",
    de: "{1}-Dateien sind nicht lesbar: Bitte als JPEG oder PNG speichern." }],
  [/^(?:the (?:camera's )?picture )?is damaged: .*$/, {
    en: "The picture is damaged.",
    de: "Das Bild ist beschädigt." }],
  [/^(?:the (?:camera's )?picture )?is too large.*$/, { de: "Das Bild ist zu groß." }],
  [/^the content type must be image.*$/, {
    en: "Only pictures in JPEG, PNG and WebP can be read: save it as one of them.",
    de: "Nur Bilder in JPEG, PNG und WebP werden gelesen: Bitte in einem davon speichern." }],
  [/^the body is too large.*$/, {
    en: "The file is too large.",
    de: "Die Datei ist zu groß." }],
  [/^the body (?:took too long|broke off)$/, {
    en: "The upload broke off. Please try again.",
    de: "Die Übertragung ist abgebrochen. Bitte noch einmal versuchen." }],
  [/^there are no shots of "(.+)": take some first$/, { de: "Es gibt noch keine Aufnahmen von „{1}“: Bitte zuerst welche machen." }],
  [/^no free target is left.*$/, {
    en: "There is no room for more things: forget one first.",
    de: "Es ist kein Platz für weitere Dinge: Bitte zuerst eines vergessen." }],
  [/^"(.+)" is being changed already.*$/, { de: "„{1}“ wird gerade schon geändert." }],
  [/^(\d+) changes wait already.*$/, { de: "{1} Änderungen warten schon. Bitte später noch einmal versuchen." }],
  [/^(\d+) shots are held already.*$/, { de: "{1} Aufnahmen liegen schon da: Bitte einige lernen oder löschen." }],
  [/^too many .*$/, { de: "Der Dienst hat gerade zu viel zu tun. Bitte noch einmal versuchen." }],
  [/^a class was learned or forgotten meanwhile.*$/, { de: "Inzwischen wurde etwas gelernt oder vergessen. Bitte noch einmal versuchen." }],
  [/^the label "(.*)" cannot be used.*$/s, {
    en: "The name “{1}” cannot be used: it may not be empty or very long, nor hold “=”, and “unknown” and “empty” are taken.",
    de: "Der Name „{1}“ ist nicht erlaubt: Er darf nicht leer oder sehr lang sein und kein „=“ enthalten; „unknown“ und „empty“ sind vergeben." }],
  [/^nothing was learned, so there is nothing to back up$/, { de: "Noch ist nichts gelernt, also gibt es nichts zu sichern." }],
  [/^another file is being written.*$/, { de: "Es wird gerade schon eine Datei geschrieben. Bitte gleich noch einmal versuchen." }],
  [/^(\d+) backups are being sent already.*$/, { de: "{1} Sicherungen werden gerade übertragen. Bitte warten, bis eine angekommen ist." }],
  [/^no backup: (?:a change is being made|another process is changing the state).*$/, { de: "Gerade wird etwas geändert. Bitte danach noch einmal versuchen." }],
  [/^no backup: (.*)$/s, { de: "Die Sicherung kann nicht geschrieben werden ({1})." }],
  [/^"(.+)" has a label that no pack may have.*$/, { de: "„{1}“ kann unter diesem Namen nicht exportiert werden: Bitte zuerst umbenennen." }],
  [/^the pack cannot be imported: it is not signed.*$/, {
    en: "This device takes only signed files.",
    de: "Dieses Gerät nimmt nur signierte Dateien." }],
  [/^the pack cannot be imported: it is signed with another key.*$/, {
    en: "The file is signed with another key than this device demands.",
    de: "Die Datei ist mit einem anderen Schlüssel signiert, als dieses Gerät verlangt." }],
  [/^the pack cannot be imported: .*(?:its signature does not match|trusted comment).*$/, {
    en: "The file was changed after it was signed.",
    de: "Die Signatur der Datei stimmt nicht: Sie wurde danach verändert." }],
  [/^the pack cannot be imported: it has format version .*$/, {
    en: "The file comes from another version of OrCo.",
    de: "Die Datei stammt von einer anderen Version von OrCo." }],
  [/^the pack cannot be imported: it holds (\d+) shots.*$/, {
    en: "The file holds {1} shots, more than a thing may have.",
    de: "Die Datei enthält {1} Aufnahmen, mehr als eine Klasse haben darf." }],
  [/^the pack cannot be imported: .*another bundle.*$/, {
    en: "The file comes from a device with another bundle.",
    de: "Die Datei stammt von einem Gerät mit einem anderen Bündel." }],
  [/^the pack cannot be imported: .*$/, {
    en: "This is no file of an exported thing, or it is damaged.",
    de: "Das ist keine Datei eines exportierten Dings, oder sie ist beschädigt." }],
  [/^(?:the label )?"(.+)" (?:is known|exists) already.*$/, { de: "„{1}“ ist schon bekannt: Bitte einen anderen Namen wählen." }],
  [/^no class has the label "(.+)"$/, { de: "Etwas mit dem Namen „{1}“ ist nicht bekannt." }],
  [/^"(.+)" came with the bundle.*$/, {
    en: "“{1}” is known from the start and cannot be changed.",
    de: "„{1}“ ist von Anfang an bekannt und kann nicht geändert werden." }],
  [/^the class "(.+)" would have (\d+) shots, but a class may have at most (\d+)$/, { de: "„{1}“ hätte {2} Aufnahmen, höchstens {3} sind möglich." }],
  [/^this is the last shot of "(.+)"; forget the class instead$/, { de: "Das ist die letzte Aufnahme von „{1}“: Bitte stattdessen das Ganze vergessen." }],
  [/^the shot belongs to "(.+)" already$/, { de: "Die Aufnahme gehört schon zu „{1}“." }],
  [/^the shot is not one of "(.+)" any more.*$/, { de: "Die Aufnahme gehört nicht mehr zu „{1}“: Sie wurde verschoben, vergessen oder zurückgenommen." }],
  [/^"(.+)" has no shot .*$/, { de: "Diese Aufnahme von „{1}“ gibt es nicht mehr." }],
  [/^(?:there is nothing to undo|nothing can be undone)$/, { de: "Es gibt nichts zurückzunehmen." }],
  [/^(?:nothing was undone since the last change|nothing can be redone)$/, { de: "Seit der letzten Änderung wurde nichts zurückgenommen." }],
  [/^only \d+ changes? can be .*$/, { de: "So viele Änderungen sind nicht gespeichert." }],
  [/^the last change is entry (\d+), not entry (\d+).*$/, { de: "Inzwischen gab es eine andere Änderung (Eintrag {1}); nichts wurde zurückgenommen." }],
  [/^(?:there is no entry|entry) .*$/, { de: "Diesen Eintrag gibt es im Verlauf nicht mehr." }],
  [/^old classes would have lost more than the forgetting budget.*$/, { de: "Bekanntes würde dadurch zu viel schlechter erkannt." }],
  [/^no answer names "(.+)", although.*$/, {
    en: "No answer names “{1}”, since they name only what it learned: learn it in place of the one from the start, or have answers name all it knows (Settings).",
    de: "Keine Antwort nennt „{1}“, denn sie nennen nur Gelerntes: Anstelle des Bekannten lernen, oder in den Einstellungen alles Bekannte nennen lassen." }],
  [/^the class is purged, but its sightings are left: (.*); remove them once.*$/s, {
    en: "Pictures of it are still in the list of what was seen, which cannot be written just now ({1}). Remove that list later, under Review.",
    de: "In der Liste des Gesehenen stehen noch Bilder davon; sie kann gerade nicht geschrieben werden ({1}). Bitte die Liste später löschen." }],
  [/^the change was cancelled$/, { de: "Die Änderung wurde abgebrochen." }],
  [/^the camera gave no picture yet.*$/, { de: "Die Kamera hat noch kein Bild geschickt." }],
  [/^the camera seems to have been moved.*$/, { de: "Die Kamera wurde wohl verschoben, oder das Licht ist ganz anders: Bitte den leeren Platz noch einmal zeigen." }],
  [/^the empty place was shown with (\d+) x (\d+) pixels, .*$/, { de: "Der leere Platz wurde mit {1} x {2} Bildpunkten gezeigt, die Kamera hat jetzt andere: Bitte ihn noch einmal zeigen." }],
  [/^the empty place in .* cannot be used.*$/, { de: "Der gespeicherte leere Platz ist beschädigt: Bitte ihn noch einmal zeigen." }],
  [/^the empty place in .* cannot be read or written: (.*)$/s, { de: "Der leere Platz kann nicht gelesen oder gespeichert werden ({1})." }],
  [/^view \d+ of the empty place is black.*$/, { de: "Das Bild ist schwarz: Ist das Objektiv verdeckt oder das Licht aus?" }],
  [/^view \d+ of the empty place is clipped to white.*$/, { de: "Das Bild ist überbelichtet: Die Kamera braucht weniger Licht." }],
  [/^view \d+ of the empty place is of one colour.*$/, { de: "Das Bild hat nur eine Farbe: Ist etwas vor dem Objektiv?" }],
  [/^view \d+ of the empty place does not look like the others.*$/, { de: "Die Bilder unterscheiden sich: Liegt etwas da, oder war eine Hand im Bild? Bitte den Platz leer räumen und noch einmal zeigen." }],
  [/^view \d+ of the empty place .*$/, { de: "Die Bilder zeigen nicht denselben Platz: Bitte ihn noch einmal zeigen." }],
  [/^the place is empty.*$/, { de: "Der Platz ist leer: Bitte das Ding ins Bild legen." }],
  [/^the camera gives no new frames.*$/, { de: "Die Kamera schickt keine neuen Bilder. Bitte noch einmal versuchen." }],
  [/^the camera is not there.*$/, { de: "Die Kamera ist nicht da; neuer Versuch läuft." }],
  [/^frame .* is not held any more.*$/, { de: "Dieses Bild der Kamera ist nicht mehr da: Bitte noch eines aufnehmen." }],
  [/^the inbox has no frame .*$/, { de: "Dieses Bild ist nicht mehr da." }],
  [/^no job .*$/, { de: "Diese Änderung ist nicht mehr bekannt." }],
  [/^the service is stopping$/, { de: "Der Dienst wird gerade beendet." }],
  [/^the answer was lost.*$/, { de: "Die Antwort ging verloren. Bitte noch einmal versuchen." }],
  [/^the service failed at this request.*$/, { de: "Der Dienst ist daran gescheitert; sein Protokoll sagt, warum." }],
  [/^the state cannot be used any more.*$/, { de: "Das Gelernte ist nicht mehr verfügbar." }],
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
  const language = currentLanguage();
  for (const [pattern, texts] of sentences) {
    const found = texts[language] && pattern.exec(sentence);
    if (found) return fill(texts[language], found);
  }
  return (others[language] ?? others.en)(sentence);
}
