// What the page says where the service refuses a request or a change fails, by the code that the service gives.
import { currentLanguage, fill } from "./language.js";
import { damaged, notPicture, problem, unsupported } from "./problems.js";

const interrupted = { en: "The upload was interrupted. Please try again.", de: "Die Übertragung wurde unterbrochen. Bitte noch einmal versuchen." };

// A language that is left out says the service's own sentence.
export const refusals = {
  unsupported_media_type: {
    en: "Only pictures in JPEG, PNG and WebP can be read: save it as one of them.",
    de: "Nur Bilder in JPEG, PNG und WebP werden gelesen: Bitte in einem davon speichern." },
  body_too_large: { en: "The file is too large.", de: "Die Datei ist zu groß." },
  body_timeout: interrupted,
  body_incomplete: interrupted,

  too_many_requests: { de: "Der Dienst hat gerade zu viel zu tun. Bitte noch einmal versuchen." },
  too_many_changes: { de: "{limit} Änderungen warten schon. Bitte später noch einmal versuchen." },
  too_many_backups: { de: "{limit} Sicherungen werden gerade übertragen. Bitte warten, bis eine angekommen ist." },
  transfer_busy: { de: "Es wird gerade schon eine Datei geschrieben. Bitte gleich noch einmal versuchen." },
  state_changed: { de: "Inzwischen wurde etwas gelernt oder vergessen. Bitte noch einmal versuchen." },
  shutting_down: { de: "Der Dienst wird gerade beendet." },
  inference_restarted: { de: "Die Antwort ging verloren. Bitte noch einmal versuchen." },
  backbone_busy: { de: "Das Modell wird noch geladen. Bitte noch einmal versuchen." },
  backbone_failed: { de: "Das Modell ist daran gescheitert ({reason})." },
  storage: { de: "Das kann nicht gelesen oder gespeichert werden ({reason})." },
  internal: { de: "Der Dienst ist daran gescheitert; sein Protokoll sagt, warum." },

  not_a_picture: notPicture,
  unsupported_picture: unsupported,
  picture_damaged: damaged,
  picture_too_large: { de: "Das Bild ist zu groß." },
  picture_memory: { de: "Das Bild ist zu groß." },

  invalid_label: {
    en: "The name “{label}” cannot be used: it may not be empty or very long, nor hold “=”, and “unknown” and “empty” are taken.",
    de: "Der Name „{label}“ ist nicht erlaubt: Er darf nicht leer oder sehr lang sein und kein „=“ enthalten; „unknown“ und „empty“ sind vergeben." },
  label_taken: {
    en: "“{label}” is known already: choose another name.",
    de: "„{label}“ ist schon bekannt: Bitte einen anderen Namen wählen." },
  unknown_class: { de: "Etwas mit dem Namen „{label}“ ist nicht bekannt." },
  base_class: {
    en: "“{label}” is known from the start and cannot be changed.",
    de: "„{label}“ ist von Anfang an bekannt und kann nicht geändert werden." },
  class_renamed: { de: "„{label}“ heißt jetzt „{now}“." },
  class_busy: { de: "„{label}“ wird gerade schon geändert." },
  no_free_target: {
    en: "There is no room for more things: forget one first.",
    de: "Es ist kein Platz für weitere Dinge: Bitte zuerst eines vergessen." },

  nothing_to_learn: { de: "Es gibt noch keine Aufnahmen von „{label}“: Bitte zuerst welche machen." },
  no_pending_shots: { de: "Es gibt keine Aufnahmen von „{label}“ mehr." },
  unknown_pending_shot: { de: "Diese Aufnahme von „{label}“ gibt es nicht mehr." },
  unknown_stored_shot: { de: "Die Aufnahme gehört nicht mehr zu „{label}“: Sie wurde verschoben, vergessen oder zurückgenommen." },
  shots_full: { de: "{limit} Aufnahmen liegen schon da: Bitte einige lernen oder entfernen." },
  too_many_shots: { de: "„{label}“ hätte {shots} Aufnahmen, höchstens {limit} sind möglich." },
  last_shot: { de: "Das ist die letzte Aufnahme von „{label}“: Bitte stattdessen das Ganze vergessen." },
  same_class: { de: "Die Aufnahme gehört schon zu „{label}“." },
  no_picture: { de: "Davon gibt es kein Bild." },

  nothing_to_undo: { de: "Es gibt nichts zurückzunehmen." },
  nothing_to_redo: { de: "Seit der letzten Änderung wurde nichts zurückgenommen." },
  unknown_entry: { de: "Diesen Eintrag gibt es im Verlauf nicht mehr." },
  history_changed: {
    en: "There was another change meanwhile (entry {last}): look at the history, and try again.",
    de: "Inzwischen gab es eine andere Änderung (Eintrag {last}): Bitte den Verlauf ansehen und noch einmal versuchen." },

  unknown_job: { de: "Diese Änderung ist nicht mehr bekannt." },
  state_busy: { de: "Gerade wird etwas geändert. Bitte danach noch einmal versuchen." },
  state_unusable: { de: "Das Gelernte ist nicht mehr verfügbar ({reason})." },
  older_release: { de: "Dieses Gerät hat schon eine neuere Ausgabe des Bündels benutzt." },
  forgetting_budget: { de: "Bekanntes würde dadurch zu viel schlechter erkannt." },
  training_failed: { de: "Mit diesen Einstellungen ist kein Lernen möglich ({reason})." },
  cancelled: { de: "Die Änderung wurde abgebrochen." },
  change_interrupted: { de: "Ein Fehler im Dienst hat die Änderung verhindert. Bitte noch einmal versuchen." },
  outcome_unknown: { de: "Der Dienst ist daran gescheitert ({reason})." },
  purged: { de: "Es ging um etwas, das seitdem endgültig vergessen wurde." },

  nothing_to_back_up: { de: "Noch ist nichts gelernt, also gibt es nichts zu sichern." },
  backup_failed: { de: "Die Sicherung kann nicht geschrieben werden ({reason})." },
  label_not_exportable: { de: "„{label}“ kann unter diesem Namen nicht exportiert werden: Bitte zuerst umbenennen." },
  no_exemplars: { de: "Von „{label}“ ist nichts zum Exportieren da: Bitte neue Aufnahmen lernen." },
  pack_damaged: {
    en: "This is no file of an exported thing, or it is damaged.",
    de: "Das ist keine Datei eines exportierten Dings, oder sie ist beschädigt." },
  pack_version: {
    en: "The file comes from another version of OrCo.",
    de: "Die Datei stammt von einer anderen Version von OrCo." },
  pack_too_many_shots: {
    en: "The file holds {shots} shots, more than a thing may have.",
    de: "Die Datei enthält {shots} Aufnahmen, mehr als ein Ding haben darf." },
  pack_unsigned: {
    en: "This device takes only signed files.",
    de: "Dieses Gerät nimmt nur signierte Dateien." },
  pack_other_key: {
    en: "The file is signed with another key than this device demands.",
    de: "Die Datei ist mit einem anderen Schlüssel signiert, als dieses Gerät verlangt." },
  pack_altered: {
    en: "The file was changed or damaged after it was signed.",
    de: "Die Signatur der Datei stimmt nicht: Sie wurde danach verändert oder beschädigt." },
  other_bundle: {
    en: "The file comes from a device with another bundle.",
    de: "Die Datei stammt von einem Gerät mit einem anderen Bündel." },

  no_camera: { de: "Dieser Dienst hat keine eigene Kamera." },
  camera_unavailable: { de: "Die Kamera ist nicht da; neuer Versuch läuft." },
  camera_starting: { de: "Die Kamera hat noch kein Bild geschickt." },
  camera_stalled: { de: "Die Kamera hat fünf Sekunden lang kein neues Bild geschickt: Bitte noch einmal versuchen, oder „orco scene learn“ verwenden, falls sie seltener eines schickt." },
  camera_frames_too_large: { de: "Die Bilder der Kamera sind für diesen Dienst zu groß." },
  camera_picture_unreadable: { de: "Das Bild der Kamera ist nicht lesbar. Bitte noch einmal versuchen." },
  camera_frame_expired: { de: "Dieses Bild der Kamera ist nicht mehr da: Bitte noch eines aufnehmen." },
  region_too_small: { de: "Der Bereich ist in den Bildern der Kamera zu klein: Bitte größer ziehen." },
  unknown_region: { de: "Einen Bereich „{region}“ gibt es nicht." },
  nothing_in_view: { de: "Der Platz ist leer: Bitte das Ding ins Bild legen." },
  no_scene: { de: "Der leere Platz wurde noch nicht gezeigt." },
  scene_dark: { de: "Das Bild ist schwarz: Ist das Objektiv verdeckt oder das Licht aus?" },
  scene_bright: { de: "Das Bild ist überbelichtet: Die Kamera braucht weniger Licht." },
  scene_flat: { de: "Das Bild hat nur eine Farbe: Ist etwas vor dem Objektiv?" },
  // What to do comes first: on a phone the end of a long sentence has to be scrolled to.
  scene_not_empty: {
    en: "Clear the place and show it again: the pictures differ. Was a hand or a thing in it, does the camera shake, does something move, such as a screen, or do bands of a flickering lamp pass? Mount the camera firmly, set it against flicker (50 or 60 Hz), or leave out by regions what moves.",
    de: "Bitte den Platz leer räumen und noch einmal zeigen: Die Bilder unterscheiden sich. Liegt etwas da, war eine Hand im Bild, wackelt die Kamera, bewegt sich etwas, etwa ein Bildschirm, oder laufen Streifen einer flackernden Lampe hindurch? Die Kamera festmachen, gegen Flackern einstellen (50 oder 60 Hz) oder mit Bereichen weglassen, was sich bewegt." },
  scene_unusable: { de: "Die Bilder zeigen nicht denselben Platz: Bitte ihn noch einmal zeigen." },

  unknown_inbox_picture: { de: "Dieses Bild ist nicht mehr da." },
};

// What is said of a refusal: an answer of the service, or a job that failed.
export function refusalText({ error, code, values }) {
  const text = refusals[code]?.[currentLanguage()];
  return text ? fill(text, shortened(values)) : problem(error);
}

// A pasted text that is no name would fill the page.
const MOST_LETTERS = 64;

function shortened(values) {
  const letters = [...(values?.label ?? "")];
  return letters.length > MOST_LETTERS ? { ...values, label: `${letters.slice(0, MOST_LETTERS).join("")}…` } : values;
}
