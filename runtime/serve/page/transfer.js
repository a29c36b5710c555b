// Files for elsewhere: a backup of the whole device, classes that leave and come.
import { ask } from "./dialog.js";
import { $, saveFile, setText } from "./dom.js";
import { message } from "./language.js";
import { problem } from "./problems.js";
import { api, call, classPath } from "./service.js";

// The service takes no larger pack. Where it refuses one unread, a browser may see nothing but a broken connection.
const MOST_BYTES = 8 << 20;

// A file that is being fetched or sent is not asked for twice.
let isBusy = false;

export function startTransfer() {
  $("backup").onclick = () => alone("backupSaving", "backupFailed", saveBackup);
  $("import").onchange = () => {
    const [file] = $("import").files;
    $("import").value = "";
    if (file) alone("importing", "importFailed", () => importFile(file), { name: file.name });
  };
}

// Saves a class as a file for another device.
export const exportClass = (label) =>
  save(`${classPath(label)}/pack`, `${label}.orcopack`).catch(() => { /* The error is shown. */ });

async function saveBackup() {
  await save("backup", "orco.orcobackup", { quiet: true });
  return message("backupSaved");
}

async function save(path, name, options) {
  const response = await call("GET", api(path), undefined, options);
  saveFile(await response.blob(), attachedName(response.headers.get("content-disposition")) ?? name);
}

// The name that the service gives a file, if it is one of plain letters.
export const attachedName = (disposition) => /filename="([^"]+)"/.exec(disposition ?? "")?.[1];

// Sends a class that was exported elsewhere. Where its name is known already, people are asked for another one, until
// one is free or they give up; nothing is said then.
export async function importFile(file, label) {
  if (file.size > MOST_BYTES) throw new Error(message("importTooLarge"));
  const body = file.slice(0, file.size, "application/octet-stream");
  const path = api(label === undefined ? "import" : `import?label=${encodeURIComponent(label)}`);
  try {
    const response = await call("POST", path, body, { quiet: true });
    return message("imported", await response.json());
  } catch (error) {
    const known = knownLabel(error);
    if (known === undefined) throw error;
    const other = await ask(message("importAs", { label: known }), known);
    return other?.trim() ? importFile(file, other.trim()) : "";
  }
}

// The name that is known already, where that is why an import was refused.
const knownLabel = ({ status, message: sentence }) =>
  (status === 409 ? /^the label "(.+)" exists already/s.exec(sentence)?.[1] : undefined);

// Why a request failed: the service said so, it was not reached, or the page knows.
export function reasonOf(error) {
  if (error.status !== undefined) return problem(error.message);
  return error instanceof TypeError ? message("notReached") : error.message;
}

async function alone(started, failed, work, values) {
  if (isBusy) return;
  isBusy = true;
  enable();
  setText("transfer-state", message(started, values));
  setText("transfer-state", await work().catch((error) => message(failed, { reason: reasonOf(error) })));
  isBusy = false;
  enable();
}

function enable() {
  $("backup").disabled = isBusy;
  $("import").disabled = isBusy;
}
