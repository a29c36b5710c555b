// Files for elsewhere: a backup of the whole device, classes that leave and come.
import { ask } from "./dialog.js";
import { $, saveFile, setText } from "./dom.js";
import { knownLabelFor } from "./labels.js";
import { message } from "./language.js";
import { refusalText } from "./refusals.js";
import { api, call, classPath } from "./service.js";
import { store } from "./store.js";

// A file that is being fetched or sent is not asked for twice.
let isBusy = false;

export function startTransfer() {
  $("backup").onclick = () => exclusively("backupSaving", saveBackup);
  $("import").onchange = () => {
    const [file] = $("import").files;
    $("import").value = "";
    if (file) exclusively("importing", () => importFile(file), { name: file.name });
  };
}

// Saves a class as a file for another device.
export const exportClass = (label) =>
  save(`${classPath(label)}/pack`, `${label}.orcopack`).catch(() => { /* The error is shown. */ });

async function saveBackup() {
  await save("backup", "orco.orcobackup", { quiet: true });
  return message("backupSaved");
}

// Saves what the service has at a path, under the name that it gives or this one.
export async function save(path, name, options) {
  const response = await call("GET", api(path), undefined, options);
  saveFile(await response.blob(), attachedName(response.headers.get("content-disposition")) ?? name);
}

// The name that the service gives a file, if it is one of plain letters.
export const attachedName = (disposition) => /filename="([^"]+)"(?!; filename\*)/.exec(disposition ?? "")?.[1];

// Sends a class that was exported elsewhere, and returns what is to be said. Where its name is known, people are asked
// for another until one is free; if they give up, nothing is said.
export async function importFile(file, label) {
  // The service would break the connection off.
  if (file.size > store.state.status?.pack_bytes_most) return message("importTooLarge");
  const path = api(label === undefined ? "import" : `import?label=${encodeURIComponent(label)}`);
  try {
    const response = await call("POST", path, file, { quiet: true });
    return message("imported", await response.json());
  } catch (error) {
    const known = knownLabel(error);
    if (known === undefined) throw error;
    const typed = await ask(message("importAs", { label: known }), known);
    const other = typed && knownLabelFor(typed, store.state);
    return other ? importFile(file, other) : "";
  }
}

// The name that is known already, where that is why an import was refused.
const knownLabel = ({ refusal }) => (refusal?.code === "label_taken" ? refusal.values.label : undefined);

// Why a request failed: the service said so, it was not reached, or the page knows, which says so in its language.
export function reasonOf(error) {
  if (error.refusal) return refusalText(error.refusal);
  return error instanceof TypeError ? message("notReached") : error.message;
}

async function exclusively(key, work, values) {
  if (isBusy) return;
  setBusy(true);
  setText("transfer-state", message(key, values));
  const said = await work().catch((error) => message("transferFailed", { reason: reasonOf(error) }));
  setText("transfer-state", said);
  setBusy(false);
}

function setBusy(is) {
  isBusy = $("backup").disabled = $("import").disabled = is;
}
