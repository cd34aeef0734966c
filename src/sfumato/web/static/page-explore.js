// For somebody who only has the release: its columns, its promise, questions by clicking.

import { get, post } from "./api.js";
import { askBox } from "./ask.js";
import { h, notice, put } from "./dom.js";
import { histogram } from "./figures.js";
import { plural, typeText, valueText } from "./format.js";

const OPERATORS = ["=", "<>", ">=", "<="];

export async function showExplore(page) {
  const found = await get("/api/release");
  page.steps(-1);
  page.title(found.name);
  page.limits(`This release, ${found.guarantee}:`, found.does_not_protect);
  const ask = askBox({ release: true }, found, found.name);
  put(
    page.view,
    h("h1", { tabindex: "-1" }, found.name),
    h(
      "p",
      { class: "lead" },
      `${plural(found.rows, "record")}, published under `,
      h("code", null, found.guarantee),
      ` by ${found.mechanism}.`,
    ),
    h(
      "section",
      { "aria-labelledby": "says-title" },
      h("h2", { id: "says-title" }, "What it promises"),
      found.statement.map((sentence) => h("blockquote", null, sentence)),
      found.caveats.length
        ? h(
            "details",
            null,
            h("summary", null, plural(found.caveats.length, "caveat")),
            h(
              "ul",
              null,
              found.caveats.map((sentence) => h("li", null, sentence)),
            ),
          )
        : null,
    ),
    builder(found, ask.take),
    ask.element,
    columns(found),
  );
}

function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

function literal(column, text) {
  const number = !column.text && text.trim() !== "" && Number.isFinite(Number(text));
  return number ? text.trim() : `'${text.replaceAll("'", "''")}'`;
}

/** A question from choices; `take(sql)` puts it into the box below. */
function builder(found, take) {
  const list = h("div", { class: "conditions" });
  const groups = ["by", "and by"].map((name, place) => pick(`group-${place}`, name));
  const conditions = [];

  function pick(id, name) {
    const select = h(
      "select",
      { id, onchange: write },
      h("option", { value: "" }, "nothing"),
      found.columns.map((column) => h("option", { value: column.name }, column.name)),
    );
    return { select, element: h("span", null, h("label", { for: id }, `${name} `), select) };
  }

  function write() {
    const by = groups.map((one) => one.select.value).filter(Boolean);
    const names = [...new Set(by)].map(quoted);
    const where = conditions
      .filter((one) => one.value() !== "")
      .map((one) => `${quoted(one.column().name)} ${one.operator()} ${literal(one.column(), one.value())}`);
    take(
      [
        `SELECT ${[...names, "COUNT(*)"].join(", ")} FROM release`,
        where.length ? `WHERE ${where.join(" AND ")}` : "",
        names.length ? `GROUP BY ${names.join(", ")}` : "",
      ]
        .filter(Boolean)
        .join(" "),
    );
  }

  function add() {
    const number = conditions.length + 1;
    const column = h(
      "select",
      { "aria-label": `Column of condition ${number}`, onchange: drawValue },
      found.columns.map((one) => h("option", { value: one.name }, one.name)),
    );
    const operator = h(
      "select",
      { "aria-label": `Comparison of condition ${number}`, onchange: write },
      OPERATORS.map((sign) => h("option", { value: sign }, sign)),
    );
    const value = h("span");
    const chosen = () => found.columns.find((one) => one.name === column.value);
    function drawValue() {
      const name = `Value of condition ${number}`;
      put(
        value,
        chosen().values.length
          ? h(
              "select",
              { "aria-label": name, onchange: write },
              chosen().values.map((one) => h("option", { value: one }, valueText(one))),
            )
          : h("input", { type: "text", "aria-label": name, oninput: write }),
      );
      write();
    }
    const entry = {
      column: chosen,
      operator: () => operator.value,
      value: () => value.firstElementChild.value,
    };
    const row = h(
      "p",
      null,
      column,
      operator,
      value,
      h(
        "button",
        {
          type: "button",
          class: "link",
          "aria-label": `Remove condition ${number}`,
          onclick: () => {
            conditions.splice(conditions.indexOf(entry), 1);
            row.remove();
            write();
          },
        },
        "Remove",
      ),
    );
    conditions.push(entry);
    list.append(row);
    drawValue();
  }

  return h(
    "section",
    { class: "builder", "aria-labelledby": "builder-title" },
    h("h2", { id: "builder-title" }, "Build a question"),
    h("p", { class: "toolbar" }, h("span", null, "Count people "), groups.map((one) => one.element)),
    list,
    h("p", null, h("button", { type: "button", onclick: add }, "Add a condition")),
  );
}

/** Each column with what the release shows of it: estimates, where it was hidden. */
function columns(found) {
  return h(
    "section",
    { "aria-labelledby": "columns-title" },
    h("h2", { id: "columns-title" }, "Columns"),
    h(
      "ul",
      { class: "cards" },
      found.columns.map((column) => {
        const picture = h("div");
        const show = async (event) => {
          event.target.disabled = true;
          const sql = `SELECT ${quoted(column.name)}, COUNT(*) FROM release GROUP BY ${quoted(column.name)}`;
          try {
            const told = await post("/api/query", { release: true, sql });
            const bars = told.estimates.slice(0, 40).map((one) => ({
              label: one.label,
              count: Math.max(0, Math.round(one.value)),
            }));
            put(picture, histogram({ ...column, histogram: { kind: "values", bars, others: 0 } }));
          } catch (error) {
            put(picture, notice("note", error.message));
          }
        };
        return h(
          "li",
          { class: "card" },
          h(
            "div",
            { class: "card-head" },
            h("h3", { class: "column-name" }, column.name),
            h("p", { class: "quiet" }, `${column.role} · ${typeText(column.type)}`),
          ),
          picture,
          h(
            "button",
            { type: "button", class: "link", "aria-label": `Show the counts of ${column.name}`, onclick: show },
            "Show",
          ),
        );
      }),
    ),
  );
}
