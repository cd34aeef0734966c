// Step 2: what each column holds, and which role it has. Nothing has a role until it is given one.

import { get, segment } from "./api.js";
import { ROLES, columnCard, names } from "./column-card.js";
import { counting } from "./counting.js";
import { announce, h, notice, put } from "./dom.js";
import { draftOf, request } from "./draft.js";
import { forgetButton } from "./forget.js";
import { plural } from "./format.js";
import { markers, readAnew, whoIsARow } from "./table-notes.js";

// ways to arrange the columns
const ORDERS = [
  ["file", "as in the file", null],
  ["name", "by name", (a, b) => a.column.name.localeCompare(b.column.name)],
  ["distinct", "most different values first", (a, b) => b.column.distinct - a.column.distinct],
  ["nulls", "most missing first", (a, b) => b.column.nulls - a.column.nulls],
  [
    "suggested",
    "by suggested role",
    (a, b) => rank(a.column.suggestion?.role) - rank(b.column.suggestion?.role),
  ],
];

const MANY = 20; // columns from which on each is a line, and those out of sight are not drawn

function rank(role) {
  const place = ROLES.findIndex((one) => one.name === role);
  return place < 0 ? ROLES.length : place;
}

export async function showColumns(page) {
  const found = await get(`/api/tables/${segment(page.id)}`);
  page.steps(1, { 0: "#/" });
  page.title(`Columns of ${found.label}`);
  await page.usualLimits();
  const { draft, keep, flush, forget } = draftOf(page.id, found);
  const status = h("p", { class: "tally", role: "status" });
  const trouble = h("div");
  const counted = h("div");
  const onward = h("button", { type: "submit", class: "main" }, "Continue to the promise");
  const missing = missingChoice(draft, keep);
  const many = found.columns.length > MANY;
  const cards = found.columns.map((column, place) => columnCard(column, place, draft, changed, many));
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
  const picked = () => shownCards().filter((one) => one.pick.checked);
  const ofPicked = h(
    "select",
    { id: "of-picked", onchange: givePicked },
    h("option", { value: "" }, "choose a role"),
    ROLES.map((role) => h("option", { value: role.name }, role.title)),
  );
  const pickedTally = h("label", { for: "of-picked" });
  const all = h("input", { type: "checkbox", id: "pick-all", onchange: pickAll });
  const order = h(
    "select",
    { id: "order", onchange: arrange },
    ORDERS.map(([value, text]) => h("option", { value }, text)),
  );
  const list = h(
    "ul",
    {
      class: `cards${many ? " many" : ""}`,
      onchange: (event) => event.target.classList.contains("pick") && tally(),
    },
    cards.map((one) => one.element),
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

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    for (const one of cards) one.element.hidden = !one.column.name.toLowerCase().includes(wanted);
    announce(`${plural(shownCards().length, "column")} shown`);
    tally();
  }

  function arrange() {
    const [, text, by] = ORDERS.find(([value]) => value === order.value);
    const arranged = by ? [...cards].sort(by) : cards;
    list.replaceChildren(...arranged.map((one) => one.element));
    announce(`Columns ${text}`);
  }

  /** How many columns are selected, of those that are shown. */
  function tally() {
    const number = picked().length;
    pickedTally.textContent = `${plural(number, "selected column")}: `;
    ofPicked.disabled = number === 0;
    all.checked = number > 0 && number === shownCards().length;
    all.indeterminate = number > 0 && !all.checked;
  }

  function pickAll() {
    for (const one of shownCards()) one.pick.checked = all.checked;
    tally();
  }

  function givePicked() {
    const role = ofPicked.value;
    const given = picked();
    // an identifier is never given out by a bulk action
    const kept = role === "quasi" ? given.filter((one) => names(one.column)) : [];
    for (const one of given) {
      one.pick.checked = false;
      if (role && !kept.includes(one)) draft.roles[one.column.name] = role;
    }
    ofPicked.value = "";
    cards.forEach((one) => one.refresh());
    changed();
    tally();
    put(
      trouble,
      kept.length
        ? notice(
            "note",
            `${kept.map((one) => one.column.name).join(", ")} may name people, and became no quasi-identifier. Give that role at the column itself.`,
          )
        : null,
    );
    announce(`${plural(given.length - kept.length, "column")} given the role ${role}`);
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
    await flush();
    await counts.start(request(draft));
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
      "Fewer quasi-identifiers protect better: give out those that analysts need, and drop the rest.",
    ),
    markers(found, page.id),
    readAnew(found, page.id),
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
        h("span", null, h("label", { for: "order" }, "Order "), order),
        h("span", null, all, h("label", { for: "pick-all" }, " Select all shown")),
        h("span", null, pickedTally, ofPicked),
        h("span", null, h("label", { for: "rest" }, "All without a role: "), rest),
      ),
      list,
      missing.box,
      quasiK(draft, keep),
      trouble,
      counted,
      h(
        "p",
        { class: "actions onward" },
        onward,
        forgetButton(`/api/tables/${segment(page.id)}`, found.label, () => {
          forget();
          location.hash = "#/";
        }),
      ),
    ),
  );
  changed();
  tally();
  const counts = counting(page.id, counted, onward);
  return () => {
    counts.stop();
    return flush();
  };
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
