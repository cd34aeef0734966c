// What stands above the columns: how the file was read, texts that stand for nothing, who a row is.

import { post, segment } from "./api.js";
import { csvPanel, isText, isWorkbook } from "./csv-panel.js";
import { h, notice, problem, put } from "./dom.js";
import { plural } from "./format.js";

/** How the file was read, to be said anew; made when it is opened, because it shows rows. */
export function readAnew(found, id) {
  if (!isText(found.label) && !isWorkbook(found.label)) return null;
  const make = () => {
    if (box.childElementCount > 1) return;
    const panel = csvPanel({ table: id }, found.label, async (said) => {
      const again = await post("/api/tables", { table: id, ...said });
      location.hash = `#/table/${segment(again.table)}`;
    });
    box.append(panel.element);
  };
  const box = h("details", { ontoggle: make }, h("summary", null, "How the file is written"));
  return box;
}

/** Texts that stand for nothing known, offered to be read as missing. */
export function markers(found, id) {
  const seen = new Map();
  for (const column of found.columns)
    for (const text of column.markers ?? [])
      seen.set(text, [...(seen.get(text) ?? []), column.name]);
  if (!seen.size) return null;
  const texts = [...seen.keys()];
  const trouble = h("div");
  async function readAgain(event) {
    event.target.disabled = true;
    try {
      const again = await post("/api/tables", { table: id, missing_markers: texts.join(",") });
      location.hash = `#/table/${segment(again.table)}`;
    } catch (error) {
      event.target.disabled = false;
      put(trouble, problem(error));
    }
  }
  return notice(
    "note",
    `${texts.map((text) => `“${text}”`).join(", ")} may stand for what is not known.`,
    h("p", null, "In ", [...new Set([...seen.values()].flat())].slice(0, 8).join(", "), "."),
    h("p", null, h("button", { type: "button", onclick: readAgain }, "Read as missing")),
    trouble,
  );
}

/** An identifier that repeats: are rows people, or do people have several? */
export function whoIsARow(found, draft, changed) {
  const column = found.columns.find((one) => one.suggestion?.role === "person");
  if (!column) return null;
  const people = `${column.exact === false ? "about " : ""}${plural(column.distinct, "person", "people")}`;
  const give = (role) => () => {
    draft.roles[column.name] = role;
    changed();
  };
  const choices = [
    ["person", `Its rows belong together: publish one row of each of the ${people}`],
    ["drop", "Each row is somebody else: it is only a number"],
  ].map(([role, text]) => ({
    text,
    radio: h("input", { type: "radio", name: "who", value: role, onchange: give(role) }),
  }));
  const refresh = () => {
    for (const { radio } of choices) radio.checked = draft.roles[column.name] === radio.value;
  };
  const element = h(
    "fieldset",
    { class: "choices who" },
    h("legend", null, "Who is a row?"),
    h(
      "p",
      null,
      h("code", null, column.name),
      ` repeats: ${people} in ${plural(found.rows, "row")}. Every promise is about a person.`,
    ),
    choices.map(({ radio, text }) => h("label", null, radio, h("span", null, text))),
  );
  return { element, refresh };
}
