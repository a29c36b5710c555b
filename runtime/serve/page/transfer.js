// Files for elsewhere: a backup of the whole device, classes that leave and come.
import { $, saveFile, setText } from "./dom.js";
import { message } from "./language.js";
import { problem } from "./problems.js";
import { api, call, classPath } from "./service.js";

// A file that is being fetched or sent is not asked for twice.
let isBusy = false;

export function startTransfer() {
  $("backup").onclick = () => alone("backupSaving", async () => {
    await save(api("backup"), "orco.orcobackup");
    return message("backupSaved");
  });
  $("import").onchange = () => {
    const [file] = $("import").files;
    $("import").value = "";
    if (file) alone("importing", () => take(file), { name: file.name });
  };
}

// Saves a class as a file for another device.
export const exportClass = (label) =>
  save(api(`${classPath(label)}/pack`), `${label}.orcopack`).catch(() => { /* The error is shown. */ });

async function save(path, name) {
  const response = await call("GET", path);
  const given = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  saveFile(await response.blob(), given ?? name);
}

async function take(file) {
  const body = file.slice(0, file.size, "application/octet-stream");
  const response = await call("POST", api("import"), body, { quiet: true });
  const { label } = await response.json();
  return message("imported", { label });
}

async function alone(key, work, values) {
  if (isBusy) return;
  isBusy = true;
  enable();
  setText("transfer-state", message(key, values));
  const said = await work().catch((error) => message("transferFailed", { reason: problem(error.message) }));
  setText("transfer-state", said);
  isBusy = false;
  enable();
}

function enable() {
  $("backup").disabled = isBusy;
  $("import").disabled = isBusy;
}
