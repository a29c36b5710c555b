// Files for elsewhere: a backup of the whole device, classes that leave and come.
import { ask } from "./dialog.js";
import { $, saveFile, setText } from "./dom.js";
import { message } from "./language.js";
import { problem } from "./problems.js";
import { api, call, classPath } from "./service.js";

// What the service takes of a pack, in bytes.
const MAX_PACK = 8 << 20;

// A file that is being fetched or sent is not asked for twice.
let isBusy = false;

export function startTransfer() {
  $("backup").onclick = () => exclusively("backupSaving", async () => {
    await save(api("backup"), "orco.orcobackup", { quiet: true });
    return message("backupSaved");
  });
  $("import").onchange = () => {
    const [file] = $("import").files;
    $("import").value = "";
    if (file) exclusively("importing", () => take(file), { name: file.name });
  };
}

// Saves a class as a file for another device.
export const exportClass = (label) =>
  save(api(`${classPath(label)}/pack`), `${label}.orcopack`).catch(() => { /* The error is shown. */ });

async function save(path, name, options) {
  const response = await call("GET", path, undefined, options);
  const given = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  saveFile(await response.blob(), given ?? name);
}

async function take(file) {
  // The service would break the connection off.
  if (file.size > MAX_PACK) return message("importTooLarge");
  const body = file.slice(0, file.size, "application/octet-stream");
  for (let path = api("import"); ;) {
    try {
      const { label } = await (await call("POST", path, body, { quiet: true })).json();
      return message("imported", { label });
    } catch (error) {
      const known = /^the label "(.*)" exists already/.exec(error.message)?.[1];
      const other = known && await ask(message("importAs", { label: known }), known);
      if (!known) throw error;
      if (!other) return "";
      path = `${api("import")}?label=${encodeURIComponent(other.trim())}`;
    }
  }
}

async function exclusively(key, work, values) {
  if (isBusy) return;
  isBusy = true;
  enable();
  setText("transfer-state", message(key, values));
  const said = await work().catch((error) => message("transferFailed", { reason: reasonOf(error) }));
  setText("transfer-state", said);
  isBusy = false;
  enable();
}

// An error without a status is the browser's: the service did not answer.
const reasonOf = (error) => (error.status ? problem(error.message) : message("notReached"));

function enable() {
  $("backup").disabled = isBusy;
  $("import").disabled = isBusy;
}
