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
  const open = (source, label) => openTable(source, label, trouble);
  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Choose a table of people"),
    h(
      "p",
      { class: "lead" },
      "One row per person, in Parquet, CSV or Arrow. The table stays on this machine: you will see counts of its columns, never a row.",
    ),
    trouble,
    h("div", { class: "pair" }, browser(page, state, open), uploader(state, open)),
  );
}

async function openTable(source, label, trouble) {
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
    const table = await post("/api/tables", { source });
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
    accept: ".parquet,.csv,.arrow,.feather,.ipc",
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
