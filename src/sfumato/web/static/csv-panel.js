// How a text file is written: separator, quote, encoding, header, missing markers, with its first rows
// as they are cut. The only place on this page that shows rows.

import { post } from "./api.js";
import { announce, freshId, h, notice, problem, put, table } from "./dom.js";
import { count, plural } from "./format.js";

const REST = 300; // milliseconds without a change after which the rows are cut anew
const SIGNS = [
  ["", "found out"],
  [",", "comma ,"],
  [";", "semicolon ;"],
  ["\\t", "tab"],
  ["|", "bar |"],
];
const QUOTES = [
  ["", 'usual "'],
  ["'", "apostrophe '"],
  ["`", "backtick `"],
];
const ENCODINGS = [
  ["", "found out"],
  ["utf-8", "UTF-8"],
  ["latin-1", "Latin-1 (Western Europe)"],
  ["cp1252", "Windows-1252 (Western Europe)"],
  ["cp1250", "Windows-1250 (Central Europe)"],
  ["utf-16", "UTF-16"],
];
const HEADERS = [
  ["", "found out"],
  ["yes", "has the names"],
  ["no", "is data already"],
];
const NAMES = { "\t": "tab", ",": "comma", ";": "semicolon", "|": "bar" };

export const isText = (name) => /\.(csv|tsv|txt|data|dat)$/i.test(name);
export const isWorkbook = (name) => /\.(xlsx|xlsm|xls|ods)$/i.test(name);

/** A panel for a file, {source} or {table}; `open(said)` reads it as was said. */
export function csvPanel(target, label, open) {
  const said = {};
  const seen = h("div", { class: "csv-seen" });
  const trouble = h("div");
  const marks = h("fieldset", { class: "choices row", hidden: true });
  let timer = null;
  let asked = 0; // rows that were cut as was said before are not shown

  function changed(name, value) {
    if (value === "" || value === false) delete said[name];
    else said[name] = value;
    clearTimeout(timer);
    timer = setTimeout(look, REST);
  }

  async function look() {
    if (!isText(label)) return;
    asked += 1;
    const mine = asked;
    try {
      const { csv } = await post("/api/preview", { ...target, ...said });
      if (mine === asked && csv) draw(csv);
    } catch (error) {
      if (mine === asked) put(seen, problem(error));
    }
  }

  function draw(csv) {
    drawMarkers(csv.markers);
    const guessed = [
      said.separator ? null : `separator ${NAMES[csv.separator] ?? csv.separator}`,
      said.encoding ? null : `encoding ${csv.encoding}`,
      said.header || said.columns ? null : `the first line ${csv.header ? "has the names" : "is data"}`,
    ].filter(Boolean);
    const width = Math.max(csv.names.length, csv.cells);
    const columns = Array.from({ length: width }, (_, place) => ({
      title: csv.names[place] ?? `(no name ${place + 1})`,
    }));
    const rows = csv.rows.map((row) => columns.map((_, place) => row[place] ?? "·"));
    put(
      seen,
      csv.ragged.length
        ? notice(
            "bad",
            `Most lines have ${plural(csv.cells, "cell")}, some do not: ${csv.ragged
              .map((one) => `line ${count(one.line)} has ${count(one.cells)}`)
              .join(", ")}.`,
            h("p", null, "Repair these lines, or choose another separator or quote."),
          )
        : null,
      guessed.length ? h("p", { class: "quiet" }, "Found out: ", guessed.join(", "), ".") : null,
      rows.length
        ? table(`The first rows of ${label}, as they are cut`, columns, rows)
        : h("p", { class: "quiet" }, "No rows."),
      h(
        "p",
        { class: "quiet" },
        "These rows are shown here only, so that you see how they are cut. Everything after this shows counts.",
      ),
    );
    announce(`${plural(width, "column")}, ${csv.ragged.length ? "lines of other lengths" : "all lines alike"}`);
  }

  function drawMarkers(found) {
    const chosen = new Set((said.missing_markers ?? "").split(",").filter(Boolean));
    marks.hidden = found.length === 0;
    const toggle = (text) => (event) => {
      if (event.target.checked) chosen.add(text);
      else chosen.delete(text);
      changed("missing_markers", [...chosen].join(","));
    };
    if (marks.hidden || marks.contains(document.activeElement)) return;
    put(
      marks,
      h("legend", null, "Read as missing"),
      found.map((one) =>
        h(
          "label",
          null,
          h("input", { type: "checkbox", checked: chosen.has(one.text), onchange: toggle(one.text) }),
          h("span", null, `“${one.text}”, ${plural(one.count, "time")} in these lines`),
        ),
      ),
    );
  }

  function choice(name, title, options) {
    const id = freshId(name);
    return h(
      "p",
      null,
      h("label", { for: id }, title),
      h(
        "select",
        { id, onchange: (event) => changed(name, event.target.value) },
        options.map(([value, text]) => h("option", { value }, text)),
      ),
    );
  }

  function field(name, title, hint, take = (text) => text) {
    const id = freshId(name);
    const keep = (event) => {
      const text = event.target.value.trim();
      changed(name, text ? take(text) : "");
    };
    return h(
      "p",
      null,
      h("label", { for: id }, title),
      h("input", { id, type: "text", oninput: keep, "aria-describedby": `${id}-hint`, autocomplete: "off" }),
      h("small", { id: `${id}-hint`, class: "quiet" }, hint),
    );
  }

  async function read() {
    button.disabled = true;
    put(trouble, h("progress", { "aria-label": `Counting the columns of ${label}` }));
    try {
      await open(said);
    } catch (error) {
      put(trouble, problem(error));
    }
    button.disabled = false;
  }

  const button = h("button", { type: "button", class: "main", onclick: read }, "Read it like this");
  const ofText = [
    choice("separator", "Between two cells", SIGNS),
    choice("quote", "Around a cell", QUOTES),
    choice("encoding", "Encoding", ENCODINGS),
    choice("header", "The first line", HEADERS),
    field("columns", "Names of the columns", "Where the file has none: age,sex,ill", (text) =>
      text.split(",").map((name) => name.trim()),
    ),
  ];
  const element = h(
    "section",
    { class: "csv-panel", "aria-label": `How ${label} is written` },
    h(
      "div",
      { class: "csv-fields" },
      isText(label) ? ofText : null,
      isWorkbook(label) ? field("sheet", "Sheet", "Of the workbook. Empty: the first.") : null,
      isText(label)
        ? null
        : field("missing_markers", "Missing markers", "Texts that stand for a missing value: ?,NA"),
    ),
    marks,
    seen,
    trouble,
    h("p", { class: "actions" }, button),
  );
  look();
  return { element, stop: () => clearTimeout(timer) };
}
