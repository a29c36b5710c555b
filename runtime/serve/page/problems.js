// Sentences of the service in the page's language: it says what is wrong in English, and in the words of programs.
import { currentLanguage, fill } from "./language.js";

// What a sentence is to be like, and how German says it; {1} and so on are what its groups held.
const german = [
  [/^(?:the (?:camera's )?picture )?is neither a JPEG .*$/, "Das Bild ist weder ein JPEG noch ein PNG noch ein WebP."],
  [/^(?:the (?:camera's )?picture )?is a (.+) file, which cannot be read.*$/, "{1}-Dateien sind nicht lesbar: Bitte als JPEG oder PNG speichern."],
  [/^(?:the (?:camera's )?picture )?is damaged: .*$/, "Das Bild ist beschädigt."],
  [/^(?:the (?:camera's )?picture )?is too large.*$/, "Das Bild ist zu groß."],
  [/^the content type must be image.*$/, "Nur Bilder in JPEG, PNG und WebP werden gelesen: Bitte in einem davon speichern."],
  [/^the body is too large.*$/, "Die Datei ist zu groß."],
  [/^the body (?:took too long|broke off)$/, "Die Übertragung ist abgebrochen. Bitte noch einmal versuchen."],
  [/^there are no shots of "(.+)": take some first$/, "Es gibt noch keine Aufnahmen von „{1}“: Bitte zuerst welche machen."],
  [/^no free target is left.*$/, "Es ist kein Platz für weitere Dinge: Bitte zuerst eines vergessen."],
  [/^"(.+)" is being changed already.*$/, "„{1}“ wird gerade schon geändert."],
  [/^(\d+) changes wait already.*$/, "{1} Änderungen warten schon. Bitte später noch einmal versuchen."],
  [/^(\d+) shots are held already.*$/, "{1} Aufnahmen liegen schon da: Bitte einige lernen oder löschen."],
  [/^too many .*$/, "Der Dienst hat gerade zu viel zu tun. Bitte noch einmal versuchen."],
  [/^a class was learned or forgotten meanwhile.*$/, "Inzwischen wurde etwas gelernt oder vergessen. Bitte noch einmal versuchen."],
  [/^the label "(.*)" cannot be used.*$/s, "Der Name „{1}“ ist nicht erlaubt: Er darf nicht leer oder sehr lang sein und kein „=“ enthalten; „unknown“ und „empty“ sind vergeben."],
  [/^nothing was learned, so there is nothing to back up$/, "Noch ist nichts gelernt, also gibt es nichts zu sichern."],
  [/^another file is being written.*$/, "Es wird gerade schon eine Datei geschrieben. Bitte gleich noch einmal versuchen."],
  [/^(\d+) backups are being sent already.*$/, "{1} Sicherungen werden gerade übertragen. Bitte warten, bis eine angekommen ist."],
  [/^no backup: (?:a change is being made|another process is changing the state).*$/, "Gerade wird etwas geändert. Bitte danach noch einmal versuchen."],
  [/^no backup: (.*)$/s, "Die Sicherung kann nicht geschrieben werden ({1})."],
  [/^"(.+)" has a label that no pack may have.*$/, "„{1}“ kann unter diesem Namen nicht exportiert werden: Bitte zuerst umbenennen."],
  [/^the pack cannot be imported: it is not signed.*$/, "Dieses Gerät nimmt nur signierte Dateien."],
  [/^the pack cannot be imported: it is signed with another key.*$/, "Die Datei ist mit einem anderen Schlüssel signiert, als dieses Gerät verlangt."],
  [/^the pack cannot be imported: .*(?:its signature does not match|trusted comment).*$/, "Die Signatur der Datei stimmt nicht: Sie wurde danach verändert."],
  [/^the pack cannot be imported: it has format version .*$/, "Die Datei stammt von einer anderen Version von OrCo."],
  [/^the pack cannot be imported: it holds (\d+) shots.*$/, "Die Datei enthält {1} Aufnahmen, mehr als eine Klasse haben darf."],
  [/^the pack cannot be imported: .*another bundle.*$/, "Die Datei stammt von einem Gerät mit einem anderen Bündel."],
  [/^the pack cannot be imported: .*$/, "Das ist keine Datei eines exportierten Dings, oder sie ist beschädigt."],
  [/^(?:the label )?"(.+)" (?:is known|exists) already.*$/, "„{1}“ ist schon bekannt: Bitte einen anderen Namen wählen."],
  [/^no class has the label "(.+)"$/, "Etwas mit dem Namen „{1}“ ist nicht bekannt."],
  [/^"(.+)" came with the bundle.*$/, "„{1}“ ist von Anfang an bekannt und kann nicht geändert werden."],
  [/^the class "(.+)" would have (\d+) shots, but a class may have at most (\d+)$/, "„{1}“ hätte {2} Aufnahmen, höchstens {3} sind möglich."],
  [/^this is the last shot of "(.+)"; forget the class instead$/, "Das ist die letzte Aufnahme von „{1}“: Bitte stattdessen das Ganze vergessen."],
  [/^the shot belongs to "(.+)" already$/, "Die Aufnahme gehört schon zu „{1}“."],
  [/^the shot is not one of "(.+)" any more.*$/, "Die Aufnahme gehört nicht mehr zu „{1}“: Sie wurde verschoben, vergessen oder zurückgenommen."],
  [/^"(.+)" has no shot .*$/, "Diese Aufnahme von „{1}“ gibt es nicht mehr."],
  [/^there is nothing to undo$/, "Es gibt nichts zurückzunehmen."],
  [/^nothing was undone since the last change$/, "Seit der letzten Änderung wurde nichts zurückgenommen."],
  [/^nothing can be undone$/, "Es gibt nichts zurückzunehmen."],
  [/^nothing can be redone$/, "Seit der letzten Änderung wurde nichts zurückgenommen."],
  [/^only \d+ changes? can be .*$/, "So viele Änderungen sind nicht gespeichert."],
  [/^the last change is entry (\d+), not entry (\d+).*$/, "Inzwischen gab es eine andere Änderung (Eintrag {1}); nichts wurde zurückgenommen."],
  [/^(?:there is no entry|entry) .*$/, "Diesen Eintrag gibt es im Verlauf nicht mehr."],
  [/^old classes would have lost more than the forgetting budget.*$/, "Bekanntes würde dadurch zu viel schlechter erkannt."],
  [/^no answer names "(.+)", although.*$/, "Keine Antwort nennt „{1}“, denn sie nennen nur Gelerntes: Anstelle des Bekannten lernen, oder in den Einstellungen alles Bekannte nennen lassen."],
  [/^the change was cancelled$/, "Die Änderung wurde abgebrochen."],
  [/^the camera gave no picture yet.*$/, "Die Kamera hat noch kein Bild geschickt."],
  [/^the camera seems to have been moved.*$/, "Die Kamera wurde wohl verschoben, oder das Licht ist ganz anders: Bitte den leeren Platz noch einmal zeigen."],
  [/^the empty place was shown with (\d+) x (\d+) pixels, .*$/, "Der leere Platz wurde mit {1} x {2} Bildpunkten gezeigt, die Kamera hat jetzt andere: Bitte ihn noch einmal zeigen."],
  [/^the empty place in .* cannot be used.*$/, "Der gespeicherte leere Platz ist beschädigt: Bitte ihn noch einmal zeigen."],
  [/^the empty place in .* cannot be read or written: (.*)$/s, "Der leere Platz kann nicht gelesen oder gespeichert werden ({1})."],
  [/^view \d+ of the empty place is black.*$/, "Das Bild ist schwarz: Ist das Objektiv verdeckt oder das Licht aus?"],
  [/^view \d+ of the empty place is clipped to white.*$/, "Das Bild ist überbelichtet: Die Kamera braucht weniger Licht."],
  [/^view \d+ of the empty place is of one colour.*$/, "Das Bild hat nur eine Farbe: Ist etwas vor dem Objektiv?"],
  [/^view \d+ of the empty place does not look like the others.*$/, "Die Bilder unterscheiden sich: Liegt etwas da, oder war eine Hand im Bild? Bitte den Platz leer räumen und noch einmal zeigen."],
  [/^view \d+ of the empty place .*$/, "Die Bilder zeigen nicht denselben Platz: Bitte ihn noch einmal zeigen."],
  [/^the place is empty.*$/, "Der Platz ist leer: Bitte das Ding ins Bild legen."],
  [/^the camera gives no new frames.*$/, "Die Kamera schickt keine neuen Bilder. Bitte noch einmal versuchen."],
  [/^the camera is not there.*$/, "Die Kamera ist nicht da; neuer Versuch läuft."],
  [/^frame .* is not held any more.*$/, "Dieses Bild der Kamera ist nicht mehr da: Bitte noch eines aufnehmen."],
  [/^the inbox has no frame .*$/, "Dieses Bild ist nicht mehr da."],
  [/^no job .*$/, "Diese Änderung ist nicht mehr bekannt."],
  [/^the service is stopping$/, "Der Dienst wird gerade beendet."],
  [/^the answer was lost.*$/, "Die Antwort ging verloren. Bitte noch einmal versuchen."],
  [/^the service failed at this request.*$/, "Der Dienst ist daran gescheitert; sein Protokoll sagt, warum."],
  [/^the state cannot be used any more.*$/, "Das Gelernte ist nicht mehr verfügbar."],
  [/^the disk of (.+) does not answer$/, "Der Datenträger von {1} antwortet nicht."],
  [/^nothing can be (?:learned|written|saved).*$/, "Es kann nichts gespeichert werden: Der Datenträger ist voll oder schreibgeschützt."],
];

// What the service says to programs, for people.
const english = [
  [/^(?:the (?:camera's )?picture )?is neither a JPEG .*$/, "This is not a picture in JPEG, PNG or WebP."],
  [/^(?:the (?:camera's )?picture )?is a (.+) file, which cannot be read.*$/, "{1} files cannot be read: save the picture as JPEG or PNG."],
  [/^(?:the (?:camera's )?picture )?is damaged: .*$/, "The picture is damaged."],
  [/^the content type must be image.*$/, "Only pictures in JPEG, PNG and WebP can be read: save it as one of them."],
  [/^the body is too large.*$/, "The file is too large."],
  [/^the body (?:took too long|broke off)$/, "The upload broke off. Please try again."],
  [/^the label "(.*)" cannot be used.*$/s, "The name “{1}” cannot be used: it may not be empty or very long, nor hold “=”, and “unknown” and “empty” are taken."],
  [/^the pack cannot be imported: it is not signed.*$/, "This device takes only signed files."],
  [/^the pack cannot be imported: it is signed with another key.*$/, "The file is signed with another key than this device demands."],
  [/^the pack cannot be imported: .*(?:its signature does not match|trusted comment).*$/, "The file was changed after it was signed."],
  [/^the pack cannot be imported: it has format version .*$/, "The file comes from another version of OrCo."],
  [/^the pack cannot be imported: it holds (\d+) shots.*$/, "The file holds {1} shots, more than a thing may have."],
  [/^the pack cannot be imported: .*another bundle.*$/, "The file comes from a device with another bundle."],
  [/^the pack cannot be imported: .*$/, "This is no file of an exported thing, or it is damaged."],
  [/^"(.+)" came with the bundle.*$/, "“{1}” is known from the start and cannot be changed."],
  [/^no answer names "(.+)", although.*$/, "No answer names “{1}”, since they name only what it learned: learn it in place of the one from the start, or have answers name all it knows (Settings)."],
  [/^no free target is left.*$/, "There is no room for more things: forget one first."],
];

const asSentence = (text) => text.replace(/^./u, (first) => first.toUpperCase()).replace(/[^.?!…]$/u, "$&.");

// `other` says what is not listed.
const languages = {
  en: { sentences: english, other: asSentence },
  de: { sentences: german, other: (sentence) => `Der Dienst meldet auf Englisch: ${sentence}` },
};

// What the page says where the service says `sentence`.
export function problem(sentence) {
  const { sentences, other } = languages[currentLanguage()] ?? languages.en;
  for (const [pattern, template] of sentences) {
    const found = pattern.exec(sentence);
    if (found) return fill(template, found);
  }
  return other(sentence);
}
