// Questions to a release, in SQL, answered with error bars.

import { post } from "./api.js";
import { estimateChart } from "./charts.js";
import { announce, h, problem, put, table } from "./dom.js";
import { count, figure, percent, plural, valueText } from "./format.js";

const MOST_BARS = 40;

/** Ask a release: of a job, or the one that is explored, as `place` calls it in snippets. */
export function askBox(target, summary, place = "release") {
  const answer = h("div", { class: "answer" });
  const sql = h("textarea", {
    id: "sql",
    rows: "3",
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    onkeydown: keys,
    "aria-describedby": "sql-hint",
  });
  sql.value = recall() ?? example(summary);
  const confidence = h(
    "select",
    { id: "confidence" },
    ["0.9", "0.95", "0.99"].map((level) =>
      h("option", { value: level, selected: level === "0.95" }, `${Math.round(100 * level)} %`),
    ),
  );
  const estimator = h(
    "select",
    { id: "estimator" },
    h("option", { value: "" }, "the usual one"),
    (summary.estimators ?? []).map((one) =>
      h("option", { value: one.name }, `${one.name}: ${one.does}`),
    ),
  );
  const button = h("button", { type: "submit", class: "main" }, "Ask");

  function name() {
    return `sfumato-sql-${target.job ?? "explored"}`;
  }

  function recall() {
    return sessionStorage.getItem(name());
  }

  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  }

  let asked = 0; // an answer never stands under another question
  let asking = null;

  function stop() {
    asked += 1;
    asking?.abort();
    put(answer);
    button.focus();
  }

  async function ask(event) {
    event.preventDefault();
    asked += 1;
    const mine = asked;
    sessionStorage.setItem(name(), sql.value);
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    put(
      answer,
      h("p", { class: "quiet" }, "Asking… "),
      h("button", { type: "button", onclick: stop }, "Cancel"),
    );
    const question = {
      ...target,
      sql: sql.value,
      confidence: Number(confidence.value),
      estimator: estimator.value,
      number: mine,
    };
    try {
      const found = await post("/api/query", question, { signal });
      // what is drawn is the question that the answer itself carries
      if (found.asked.number === asked)
        draw(found, found.asked.sql, percent(found.asked.confidence));
    } catch (error) {
      if (mine === asked && error.name !== "AbortError") put(answer, problem(error));
    }
  }

  function draw(found, question, level) {
    const rows = found.rows.map((row) => found.columns.map((column) => row[column]));
    const view = gather(found.columns, rows, found.counts ?? []);
    const estimates = (found.estimates ?? []).filter((one) => Number.isFinite(one.value));
    const parts = [h("p", { class: "quiet question" }, h("code", null, question))];
    if (estimates.length === 1 && rows.length === 1) parts.push(single(estimates[0], level, found.counts.length > 0));
    if (estimates.length > 1) {
      const keys = view.columns.filter((column) => !column.number).map((column) => column.title);
      const what = view.columns.find((column) => column.number)?.title ?? "estimate";
      const chart = estimateChart(what, keys.join(", ") || null);
      chart.update(
        estimates.slice(0, MOST_BARS).map((one) => ({
          label: valueText(one.label),
          value: one.value,
          low: one.low ?? one.value,
          high: one.high ?? one.value,
        })),
      );
      parts.push(
        h(
          "figure",
          null,
          h(
            "figcaption",
            { class: "quiet" },
            `Estimates with their ${level} intervals`,
            estimates.length > MOST_BARS
              ? `, the first ${MOST_BARS} of ${count(estimates.length)}`
              : null,
          ),
          chart.element,
        ),
      );
    }
    parts.push(
      rows.length ? table("The answer", view.columns, view.rows) : h("p", null, "No rows."),
    );
    if (found.left_off)
      parts.push(h("p", { class: "quiet" }, `${plural(found.left_off, "further row")} left off.`));
    if (found.note) parts.push(h("p", { class: "quiet" }, found.note));
    parts.push(takeAlong(found, place));
    put(answer, parts);
    announce(`Answered with ${plural(rows.length, "row")}`);
  }

  const form = h(
    "form",
    { onsubmit: ask },
    h(
      "p",
      null,
      h("label", { for: "sql" }, "SQL"),
      sql,
      h(
        "small",
        { id: "sql-hint", class: "quiet" },
        "The table is called release. Ctrl+Enter asks.",
      ),
    ),
    h(
      "p",
      { class: "actions" },
      button,
      h("label", { for: "confidence", class: "inline" }, "Confidence "),
      confidence,
    ),
    summary.estimators?.length
      ? h(
          "details",
          null,
          h("summary", null, "Other ways to estimate"),
          h("p", null, h("label", { for: "estimator" }, "Estimator"), estimator),
        )
      : null,
  );
  const element = h(
    "section",
    { "aria-labelledby": "ask-title" },
    h("h2", { id: "ask-title" }, "Ask it"),
    h(
      "p",
      null,
      "Counts, sums and averages are estimates, each with an interval: what an analyst will see.",
    ),
    summary.columns?.length
      ? h(
          "p",
          { class: "quiet" },
          "Columns: ",
          summary.columns.map((column, place) => [
            place ? ", " : null,
            h("code", null, column.name),
          ]),
        )
      : null,
    form,
    answer,
  );
  return {
    element,
    take: (text) => {
      sql.value = text;
    },
  };
}

/** The answer as a file, and the question for the command line and for Python. */
function takeAlong(found, place) {
  const { sql: question, confidence, estimator } = found.asked;
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    // a spreadsheet takes what begins like this for a formula
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = [found.columns, ...found.rows.map((row) => found.columns.map((name) => row[name]))];
  const save = () => {
    const file = new Blob([lines.map((line) => line.map(cell).join(",")).join("\n")], {
      type: "text/csv",
    });
    const link = h("a", { href: URL.createObjectURL(file), download: "answer.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const flags = [
    confidence === 0.95 ? "" : ` --confidence ${confidence}`,
    estimator ? ` --estimator ${estimator}` : "",
  ].join("");
  const named = [
    confidence === 0.95 ? "" : `, confidence=${confidence}`,
    estimator ? `, estimator=${JSON.stringify(estimator)}` : "",
  ].join("");
  const quoted = JSON.stringify(question).replaceAll("$", "\\$").replaceAll("`", "\\`");
  const shell = `sfumato query ${place} ${quoted}${flags}`;
  const python = `import sfumato as sf\n\nprint(sf.open(${JSON.stringify(place)}).sql(${JSON.stringify(question)}${named}))`;
  return h(
    "details",
    { class: "along" },
    h("summary", null, "Download"),
    h("p", null, h("button", { type: "button", onclick: save }, "Save the answer as CSV")),
    h("h3", null, "Command line"),
    h("pre", { tabindex: "0" }, h("code", null, shell)),
    h("h3", null, "Python"),
    h("pre", { tabindex: "0" }, h("code", null, python)),
  );
}

function single(estimate, level, whole) {
  const round = rounder(whole);
  const [low, high] = [estimate.low, estimate.high].map((end) => figure(round(end)));
  const sure = low === high ? " exactly" : ` between ${low} and ${high}, with ${level} confidence`;
  return h(
    "p",
    { class: "single" },
    h("strong", null, figure(round(estimate.value))),
    h("span", { class: "quiet" }, sure),
  );
}

/** Counts are of people, and large figures need no digits behind the point. */
function rounder(whole) {
  return (number) => (whole || Math.abs(number) >= 100 ? Math.round(number) : number);
}

function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** A first question to a release. */
export function example(summary) {
  const sensitive = summary.columns?.find((column) => column.role === "sensitive")?.name;
  return sensitive
    ? `SELECT ${quoted(sensitive)}, COUNT(*) FROM release GROUP BY ${quoted(sensitive)}`
    : "SELECT COUNT(*) FROM release";
}

/** Put each aggregate's four columns (c, c_stderr, c_low, c_high) into one cell. */
function gather(columns, rows, counts) {
  const at = new Map(columns.map((column, place) => [column, place]));
  const parts = (column) => ["_stderr", "_low", "_high"].map((ending) => at.get(column + ending));
  const aggregates = columns.filter((column) =>
    parts(column).every((place) => place !== undefined),
  );
  const inside = new Set(aggregates.flatMap(parts));
  const kept = columns.filter((column) => !inside.has(at.get(column)));
  const cell = (row, column) => {
    const value = row[at.get(column)];
    if (!aggregates.includes(column)) return valueText(value);
    if (value === null || value === undefined) return "–";
    const round = rounder(counts.includes(column));
    const [, low, high] = parts(column).map((place) => row[place]);
    if (low === high) return figure(round(value));
    return `${figure(round(value))} (${figure(round(low))} … ${figure(round(high))})`;
  };
  return {
    columns: kept.map((column) => ({ title: column, number: aggregates.includes(column) })),
    rows: rows.map((row) => kept.map((column) => cell(row, column))),
  };
}
