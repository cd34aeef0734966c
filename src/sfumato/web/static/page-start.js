// Step 1: choose a table, from the folders that the server was given or by an upload.

import { get, post, segment, serverState, upload } from "./api.js";
import { announce, h, notice, problem, put } from "./dom.js";
import { bytes, percent } from "./format.js";

export async function showStart(page) {
  page.steps(0);
  page.title("Choose a table");
  const state = await serverState();
  await page.usualLimits();
  const trouble = h("div", { class: "trouble" });
  const written = {};
  const open = (source, label) => openTable({ source, ...written }, label, trouble);
  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Choose a table of people"),
    h(
      "p",
      { class: "lead" },
      "One row per person, in Parquet, CSV, Arrow, a workbook or a file of SPSS, SAS or Stata. The table stays on this machine: you will see counts of its columns, never a row.",
    ),
    trouble,
    h("div", { class: "pair" }, browser(page, state, open), uploader(state, open)),
    howWritten(written),
  );
}

// what a file does not tell by itself; the names are those of the flags
const WRITTEN = [
  ["columns", "Names of the columns", "Where the first line is data: age,sex,ill"],
  ["missing_markers", "Missing markers", "Texts that stand for a missing value: ?,NA"],
  ["encoding", "Encoding", "latin-1, cp1252, utf-16 … Empty: UTF-8."],
  ["separator", "Separator", "One character between cells. Empty: found out."],
  ["sheet", "Sheet", "Of a workbook. Empty: the first."],
];

function howWritten(written) {
  const fields = WRITTEN.map(([name, label, hint]) => {
    const id = `written-${name}`;
    const keep = (event) => {
      const text = event.target.value.trim();
      if (!text) delete written[name];
      else written[name] = name === "columns" ? text.split(",") : text;
    };
    return h(
      "p",
      null,
      h("label", { for: id }, label),
      h("input", { id, type: "text", oninput: keep, "aria-describedby": `${id}-hint` }),
      h("small", { id: `${id}-hint`, class: "quiet" }, hint),
    );
  });
  const box = (name, given, text) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        onchange: (event) => {
          if (event.target.checked) written[name] = given;
          else delete written[name];
        },
      }),
      ` ${text}`,
    );
  return h(
    "details",
    null,
    h("summary", null, "How the file is written, if it does not tell by itself"),
    fields,
    box("header", "no", "The first line is data, not names"),
    box("trim", true, "Blanks around texts mean nothing"),
  );
}

async function openTable(asked, label, trouble) {
  put(
    trouble,
    notice(
      "note",
      `Counting the columns of ${label}…`,
      h("progress", { "aria-label": "Counting columns" }),
    ),
  );
  announce(`Counting the columns of ${label}`);
  try {
    const table = await post("/api/tables", asked);
    location.hash = `#/table/${segment(table.table)}`;
  } catch (error) {
    put(trouble, problem(error));
    trouble.scrollIntoView({ block: "nearest" });
  }
}

function browser(page, state, open) {
  const list = h("div", { class: "files" });
  let root = page.query.get("root") ?? state.roots[0]?.id;
  let folder = page.query.get("folder") ?? "";

  async function go(nextRoot, nextFolder, focus) {
    [root, folder] = [nextRoot, nextFolder];
    page.remember(new URLSearchParams({ root, folder }));
    try {
      const found = await get(`/api/files?root=${segment(root)}&folder=${segment(folder)}`);
      if (page.current()) draw(found);
      if (focus) list.querySelector(".crumbs [aria-current]")?.focus();
    } catch (error) {
      put(list, problem(error));
    }
  }

  function draw({ folders, files }) {
    const inside = (name) => (folder ? `${folder}/${name}` : name);
    const parts = folder ? folder.split("/") : [];
    const home = state.roots.find((one) => one.id === root);
    const crumbs = [home?.name ?? "data", ...parts].map((name, place, all) => {
      const path = parts.slice(0, place).join("/");
      return h(
        "li",
        null,
        place === all.length - 1
          ? h("span", { "aria-current": "location", tabindex: "-1" }, name)
          : h(
              "button",
              { type: "button", class: "link", onclick: () => go(root, path, true) },
              name,
            ),
      );
    });
    put(
      list,
      h("nav", { "aria-label": "Folder" }, h("ol", { class: "crumbs" }, crumbs)),
      folders.length + files.length === 0
        ? h("p", { class: "quiet" }, "No tables in this folder.")
        : null,
      h(
        "ul",
        { class: "listing" },
        folders.map((name) =>
          h(
            "li",
            null,
            h(
              "button",
              { type: "button", class: "row folder", onclick: () => go(root, inside(name), true) },
              h("span", { class: "name" }, name),
              h("span", { class: "quiet" }, "folder"),
            ),
          ),
        ),
        files.map((file) =>
          h(
            "li",
            null,
            h(
              "button",
              {
                type: "button",
                class: "row file",
                onclick: () => open({ root, path: inside(file.name) }, file.name),
              },
              h("span", { class: "name" }, file.name),
              h("span", { class: "quiet" }, bytes(file.bytes)),
            ),
          ),
        ),
      ),
    );
  }

  const chooser =
    state.roots.length > 1
      ? h(
          "p",
          null,
          h("label", { for: "root" }, "Folder "),
          h(
            "select",
            { id: "root", onchange: (event) => go(event.target.value, "", false) },
            state.roots.map((one) =>
              h("option", { value: one.id, selected: one.id === root }, one.name),
            ),
          ),
        )
      : null;
  if (root !== undefined) go(root, folder, false);
  return h(
    "section",
    { "aria-labelledby": "here" },
    h("h2", { id: "here" }, "On this machine"),
    state.roots.length === 0
      ? h(
          "p",
          { class: "quiet" },
          "The server was started without a folder. Start it with “sfumato serve --data FOLDER”, or upload a file.",
        )
      : chooser,
    list,
  );
}

function uploader(state, open) {
  const status = h("div", { class: "upload-status" });
  const input = h("input", {
    type: "file",
    id: "upload",
    accept:
      ".parquet,.csv,.tsv,.txt,.data,.arrow,.feather,.ipc,.xlsx,.xls,.ods,.sav,.por,.dta,.sas7bdat,.xpt",
    onchange: () => input.files[0] && send(input.files[0]),
  });

  async function send(file) {
    if (file.size > state.upload_limit) {
      put(
        status,
        notice(
          "bad",
          `${file.name} has ${bytes(file.size)}; an upload may have at most ${bytes(state.upload_limit)}. Put the file into a folder that the server was given with --data.`,
        ),
      );
      return;
    }
    const bar = h("progress", { max: "1", value: 0, "aria-label": `Sending ${file.name}` });
    const share = h("span", null, "0 %");
    const sending = upload(file, (part) => {
      bar.value = part;
      share.textContent = percent(part);
    });
    put(
      status,
      h("p", null, "Sending ", h("strong", null, file.name), " ", share),
      bar,
      h("button", { type: "button", onclick: sending.cancel }, "Stop"),
    );
    try {
      const { source } = await sending.done;
      put(status, h("p", null, `${file.name} has arrived.`));
      await open(source, file.name);
    } catch (error) {
      put(status, problem(error));
    } finally {
      input.value = "";
    }
  }

  const zone = h(
    "div",
    {
      class: "drop",
      ondragover: (event) => {
        event.preventDefault();
        zone.classList.add("over");
      },
      ondragleave: () => zone.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        zone.classList.remove("over");
        if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
      },
    },
    h("label", { for: "upload" }, "Choose a file, or drop one here"),
    input,
    h(
      "p",
      { class: "quiet" },
      `At most ${bytes(state.upload_limit)}. The copy is kept in the server's private folder.`,
    ),
  );
  return h(
    "section",
    { "aria-labelledby": "send" },
    h("h2", { id: "send" }, "Upload"),
    zone,
    status,
  );
}
