// Step 2: what each column holds, and which role it has. Nothing has a role until it is given one.

import { get, post, remove, segment } from "./api.js";
import { ROLES, columnCard, names } from "./column-card.js";
import { announce, h, notice, problem, put } from "./dom.js";
import { plural } from "./format.js";

export async function showColumns(page) {
  const found = await get(`/api/tables/${segment(page.id)}`);
  page.steps(1, { 0: "#/" });
  page.title(`Columns of ${found.label}`);
  await page.usualLimits();
  const draft = readDraft(page.id, found);
  const keep = () => sessionStorage.setItem(draftName(page.id), JSON.stringify(draft));
  const status = h("p", { class: "tally", role: "status" });
  const trouble = h("div");
  const missing = missingChoice(draft, keep);
  const cards = found.columns.map((column, place) => columnCard(column, place, draft, changed));
  const pending = () =>
    found.columns.filter((column) => column.suggestion && !draft.roles[column.name]);
  const accept = h("button", { type: "button", onclick: acceptAll });
  const search = h("input", {
    type: "search",
    id: "find-column",
    autocomplete: "off",
    oninput: filter,
  });
  const shownCards = () => cards.filter((one) => !one.element.hidden);
  const rest = h(
    "select",
    { id: "rest", onchange: giveRest },
    h("option", { value: "" }, "choose a role"),
    ROLES.map((role) => h("option", { value: role.name }, role.title)),
  );

  const who = whoIsARow(found, draft, () => {
    cards.forEach((one) => one.refresh());
    changed();
  });

  function changed() {
    keep();
    who?.refresh();
    const open = found.columns.filter((column) => !draft.roles[column.name]);
    status.textContent =
      open.length === 0
        ? "Every column has a role."
        : `${plural(open.length, "column")} without a role.`;
    const suggested = pending().length;
    accept.hidden = suggested === 0;
    accept.textContent = `Accept ${plural(suggested, "suggestion")}`;
    rest.parentElement.hidden = open.length === 0;
    missing.box.hidden = !found.columns.some(
      (column) => draft.roles[column.name] === "sensitive" && column.nulls > 0,
    );
  }

  /** The upload and every count of it go at once; releases stay. */
  async function forget() {
    try {
      await remove(`/api/tables/${segment(page.id)}`);
      sessionStorage.removeItem(draftName(page.id));
      location.hash = "#/";
    } catch (error) {
      put(trouble, problem(error));
    }
  }

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    for (const one of cards) one.element.hidden = !one.column.name.toLowerCase().includes(wanted);
    announce(`${plural(shownCards().length, "column")} shown`);
  }

  function acceptAll() {
    const taken = pending();
    for (const column of taken) draft.roles[column.name] = column.suggestion.role;
    cards.forEach((one) => one.refresh());
    changed();
    announce(`${plural(taken.length, "suggestion")} accepted`);
  }

  function giveRest() {
    // an identifier is never given out by a bulk action
    for (const { column } of shownCards()) {
      const named = rest.value === "quasi" && names(column);
      if (rest.value && !named) draft.roles[column.name] ??= rest.value;
    }
    rest.value = "";
    cards.forEach((one) => one.refresh());
    changed();
  }

  async function submit(event) {
    event.preventDefault();
    put(trouble);
    const open = cards.find((one) => !draft.roles[one.column.name]);
    if (open) {
      search.value = "";
      filter();
      put(trouble, notice("bad", "Every column needs a role: nothing is published by accident."));
      open.element.querySelector("input").focus();
      return;
    }
    const roles = found.columns.map((column) => draft.roles[column.name]);
    if (!roles.includes("sensitive")) {
      put(
        trouble,
        notice(
          "bad",
          "No column is sensitive: a promise needs one to be about. Give at least one column that role.",
        ),
      );
      return;
    }
    put(
      trouble,
      h("p", null, "Counting the table…"),
      h("progress", { "aria-label": "Counting the table" }),
    );
    try {
      const profile = await post(`/api/tables/${segment(page.id)}/roles`, request(draft));
      location.hash = `#/profile/${segment(profile.profile)}`;
    } catch (error) {
      put(trouble, problem(error), hints(error.message));
    }
  }

  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Say what each column is"),
    h(
      "p",
      { class: "lead" },
      h("strong", { class: "filename" }, found.label),
      ` has ${plural(found.rows, "row")} and ${plural(found.columns.length, "column")}. Nothing is guessed: a suggestion counts only when you accept it.`,
    ),
    h(
      "dl",
      { class: "roles-meaning" },
      ROLES.map((role) => h("div", null, h("dt", null, role.title), h("dd", null, role.sentence))),
    ),
    h(
      "p",
      { class: "quiet" },
      "Fewer quasi columns protect better: give out those that analysts need, and drop the rest.",
    ),
    markers(found, page.id),
    who?.element,
    h(
      "form",
      { onsubmit: submit, novalidate: true },
      h(
        "div",
        { class: "toolbar" },
        status,
        accept,
        h("span", null, h("label", { for: "find-column" }, "Find "), search),
        h("span", null, h("label", { for: "rest" }, "All others: "), rest),
      ),
      h(
        "ul",
        { class: "cards" },
        cards.map((one) => one.element),
      ),
      missing.box,
      quasiK(draft, keep),
      trouble,
      h(
        "p",
        { class: "actions onward" },
        h("button", { type: "submit", class: "main" }, "Continue to the promise"),
        h("button", { type: "button", class: "link", onclick: forget }, "Forget this table"),
      ),
    ),
  );
  changed();
}

const MARKERS = new Set(["?", "na", "n/a", "-", "null", "missing"]);

/** Texts that stand for nothing known, offered to be read as missing. */
function markers(found, id) {
  const seen = new Map();
  for (const column of found.columns)
    for (const bar of column.histogram.kind === "values" ? column.histogram.bars : [])
      if (MARKERS.has(String(bar.label).trim().toLowerCase()))
        seen.set(bar.label, [...(seen.get(bar.label) ?? []), column.name]);
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
function whoIsARow(found, draft, changed) {
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

function draftName(id) {
  return `sfumato-roles-${id}`;
}

function readDraft(id, found) {
  let draft = null;
  try {
    draft = JSON.parse(sessionStorage.getItem(draftName(id)));
  } catch {
    // an unreadable draft is none
  }
  draft ??= { roles: {}, missing: "refuse", bins: {}, recode: {}, domain: {}, categorical: {} };
  // a Map in all but name: a column may be called "__proto__"
  for (const part of ["roles", "bins", "recode", "domain", "categorical"]) {
    const known = Object.create(null);
    for (const column of found.columns) {
      if (Object.hasOwn(draft[part] ?? {}, column.name))
        known[column.name] = draft[part][column.name];
    }
    draft[part] = known;
  }
  return draft;
}

function request(draft) {
  const filled = (texts) =>
    Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim()));
  const asked = { roles: draft.roles, missing: draft.missing };
  if (draft.quasi_k) asked.quasi_k = draft.quasi_k;
  const published = (texts) =>
    Object.entries(filled(texts)).filter(([name]) =>
      ["quasi", "sensitive"].includes(draft.roles[name]),
    );
  const [bins, recode, domain] = [draft.bins, draft.recode, draft.domain].map(published);
  const categorical = Object.keys(draft.categorical).filter((name) => draft.categorical[name]);
  if (bins.length) asked.bins = Object.fromEntries(bins);
  if (recode.length) asked.recode = Object.fromEntries(recode);
  if (domain.length) asked.domain = Object.fromEntries(domain);
  if (categorical.length) asked.categorical = categorical;
  return asked;
}

function quasiK(draft, keep) {
  const change = (event) => {
    draft.quasi_k = event.target.value.trim();
    keep();
  };
  return h(
    "p",
    null,
    h("label", { for: "quasi-k" }, "People who share every combination of quasi values, at least "),
    h("input", {
      id: "quasi-k",
      type: "text",
      inputmode: "numeric",
      value: draft.quasi_k ?? "",
      oninput: change,
      "aria-describedby": "quasi-k-hint",
    }),
    h(
      "small",
      { id: "quasi-k-hint", class: "quiet" },
      "For example 5: values are merged into ranges and sets. Empty: published as they are.",
    ),
  );
}

function missingChoice(draft, keep) {
  const choices = [
    ["refuse", "Refuse the table"],
    ["value", "“Missing” is a value of its own, protected like the others"],
    ["drop", "Leave these rows out, and say so in the release"],
  ];
  const box = h(
    "fieldset",
    { class: "choices" },
    h("legend", null, "Rows without a sensitive value"),
    choices.map(([name, text]) => {
      const change = () => {
        draft.missing = name;
        keep();
      };
      return h(
        "label",
        null,
        h("input", {
          type: "radio",
          name: "missing",
          value: name,
          checked: draft.missing === name,
          onchange: change,
        }),
        h("span", null, text),
      );
    }),
  );
  return { box };
}

// where this page has what the command line calls by a flag
const FLAGS = [
  ["--missing", "Here: choose under “Rows without a sensitive value”."],
  ["--bins", "Here: “More about this column”, Bins."],
  ["--recode", "Here: “More about this column”, Coarser form."],
  ["--columns", "Here: “How the file is written” where you chose the table."],
  ["--encoding", "Here: “How the file is written” where you chose the table."],
  ["--domain", "Here: “More about this column”, Stated domain."],
  ["--categorical", "Here: “More about this column”, these numbers are names."],
];

function hints(message) {
  return FLAGS.filter(([flag]) => message.includes(flag)).map(([, text]) => h("p", null, text));
}
