// Step 1: choose a table, from the folders that the server was given or by an upload.

import { get, post, segment, serverState, upload } from "./api.js";
import { csvPanel, isText, isWorkbook } from "./csv-panel.js";
import { announce, copyable, h, notice, problem, put } from "./dom.js";
import { forgetButton } from "./forget.js";
import { bytes, moment, percent, plural } from "./format.js";

export async function showStart(page) {
  page.steps(0);
  page.title("Choose a table");
  const state = await serverState();
  await page.usualLimits();
  const trouble = h("div", { class: "trouble" });
  const known = goOn(page, (source, label) => open(source, label));
  const open = (source, label) => openTable(source, label, trouble, known.draw);
  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Choose a table of people"),
    h(
      "p",
      { class: "lead" },
      "One row per person, in Parquet, CSV, Arrow, a workbook or a file of SPSS, SAS or Stata. The table stays on this machine: you will see counts of its columns, and rows only where you look how a text file is cut.",
    ),
    trouble,
    h("div", { class: "pair" }, browser(page, state, open, trouble), uploader(state, open)),
    known.element,
    commandLine(),
  );
  await known.draw();
}

/** Tables that were chosen or sent before, in this tab or another: to go on with, or to forget. */
function goOn(page, open) {
  const list = h("ul", { class: "listing tables" });
  const element = h(
    "section",
    { "aria-labelledby": "go-on" },
    h("h2", { id: "go-on" }, "Go on with a table"),
    list,
  );

  async function draw() {
    const tables = await get("/api/tables");
    element.hidden = tables.length === 0;
    put(
      list,
      tables.map((one) => {
        const link = one.table
          ? h("a", { href: `#/table/${segment(one.table)}` }, one.label)
          : h("button", { type: "button", class: "link", onclick: () => open({ upload: one.upload }, one.label) }, one.label);
        const facts = one.table
          ? `${plural(one.rows, "row")}, ${plural(one.roles, "role")} of ${plural(one.columns, "column")} given`
          : `${bytes(one.bytes)}, sent and not opened`;
        const place = one.table ? `/api/tables/${segment(one.table)}` : `/api/uploads/${segment(one.upload)}`;
        return h(
          "li",
          { class: "known" },
          link,
          h("span", { class: "quiet" }, ` ${facts}, ${moment(one.chosen)} `),
          forgetButton(place, one.label, draw),
        );
      }),
    );
  }

  return { element, draw };
}

function commandLine() {
  return h(
    "details",
    null,
    h("summary", null, "Tables that are elsewhere, or in several files"),
    h(
      "p",
      null,
      "Several files that are one table, a table in PostgreSQL and what Spark reads are published with the command line:",
    ),
    copyable("sfumato publish 'data/part-*.parquet' --quasi age,sex --sensitive ill --guarantee 'l-diversity(3)' --out release"),
    copyable("sfumato publish 'postgresql://steward@db.example/clinic?table=stays' --quasi age,sex --sensitive ill --guarantee 'l-diversity(3)' --out release"),
    h(
      "p",
      { class: "quiet" },
      "A release that was made there can be explored here: “sfumato serve RELEASE”.",
    ),
  );
}

let newest = 0; // of the files that are being opened: the others wait in the list

async function openTable(source, label, trouble, redraw) {
  const own = ++newest;
  const control = new AbortController();
  const stop = h("button", { type: "button", onclick: () => control.abort() }, "Cancel");
  put(
    trouble,
    notice(
      "note",
      `Counting the columns of ${label}…`,
      h("progress", { "aria-label": "Counting columns" }),
      h("p", { class: "actions" }, stop),
    ),
  );
  announce(`Counting the columns of ${label}`);
  try {
    const table = await post("/api/tables", { source }, { signal: control.signal });
    if (own === newest) location.hash = `#/table/${segment(table.table)}`;
    else await redraw();
  } catch (error) {
    await redraw();
    if (own !== newest) return;
    if (error.name === "AbortError") {
      put(trouble);
      return;
    }
    // what reading did not understand can be said below its words
    put(trouble, problem(error), isText(label) || isWorkbook(label) ? panel() : null);
    trouble.scrollIntoView({ block: "nearest" });
  }

  function panel() {
    return writtenPanel(source, label);
  }
}

/** How a file is written, with its first rows; it is opened as was said. */
function writtenPanel(source, label) {
  const { element } = csvPanel({ source }, label, async (said) => {
    const table = await post("/api/tables", { source, ...said });
    location.hash = `#/table/${segment(table.table)}`;
  });
  return h("div", null, h("h2", null, `How ${label} is written`), element);
}

function browser(page, state, open, trouble) {
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
            isText(file.name) || isWorkbook(file.name)
              ? h(
                  "button",
                  {
                    type: "button",
                    class: "link written",
                    "aria-label": `how is it written? ${file.name}`,
                    onclick: () => {
                      put(trouble, writtenPanel({ root, path: inside(file.name) }, file.name));
                      trouble.scrollIntoView({ block: "nearest" });
                    },
                  },
                  "how is it written?",
                )
              : null,
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
          "The server was started without a folder to choose from. Upload a file.",
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
      ".parquet,.csv,.tsv,.txt,.data,.dat,.arrow,.feather,.ipc,.xlsx,.xlsm,.xlsb,.xls,.ods,.sav,.zsav,.por,.dta,.sas7bdat,.xpt",
    onchange: () => input.files[0] && send(input.files[0]),
  });

  async function send(file) {
    if (file.size > state.upload_limit) {
      put(
        status,
        notice(
          "bad",
          `${file.name} has ${bytes(file.size)}; an upload may have at most ${bytes(state.upload_limit)}. Put the file into a folder that the server was started with.`,
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
