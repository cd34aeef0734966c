// One column on the page of columns: what it holds, its role, and what else can be said about it.

import { freshId, h, put } from "./dom.js";
import { histogram } from "./figures.js";
import { count, plural, typeText } from "./format.js";

export const ROLES = [
  { name: "quasi", title: "quasi", sentence: "what others may know of a person; published" },
  { name: "sensitive", title: "sensitive", sentence: "published under the promise" },
  { name: "key", title: "key", sentence: "identifies the person; never published" },
  { name: "person", title: "person", sentence: "says whose row it is; one row of each is published" },
  { name: "drop", title: "drop", sentence: "left out" },
];

/** Whether a column seems to name people or rows. */
export function names(column) {
  return ["key", "person"].includes(column.suggestion?.role);
}

/** A column's entry: {column, element, pick, refresh()}; writes into `draft` and calls `changed`. A
 * `dense` one is a line, with its histogram among the details. */
export function columnCard(column, place, draft, changed, dense) {
  const title = freshId("column");
  const radios = ROLES.map((role) =>
    h("input", {
      type: "radio",
      name: `role-${place}`,
      value: role.name,
      onchange: () => {
        draft.roles[column.name] = role.name;
        refresh();
        changed();
      },
    }),
  );
  const suggestion = h("p", { class: "suggestion" });
  const more = h("div");
  const pick = h("input", {
    type: "checkbox",
    class: "pick",
    "aria-label": `Select ${column.name}`,
  });

  function refresh() {
    const role = draft.roles[column.name];
    radios.forEach((radio) => {
      radio.checked = radio.value === role;
    });
    element.classList.toggle("open", !role);
    put(
      suggestion,
      column.suggestion && !role
        ? [
            h("span", { class: "tag" }, "Suggestion"),
            h("span", null, ` ${column.suggestion.role}${dense ? "" : `: ${column.suggestion.why}`} `),
            h(
              "button",
              {
                type: "button",
                class: "link",
                "aria-label": `Accept the suggestion ${column.suggestion.role} for ${column.name}`,
                onclick: () => {
                  draft.roles[column.name] = column.suggestion.role;
                  refresh();
                  changed();
                  radios.find((radio) => radio.checked)?.focus();
                },
              },
              "Accept",
            ),
          ]
        : null,
    );
    if (role === "quasi" && names(column))
      put(
        suggestion,
        h("span", { class: "tag bad" }, "Careful"),
        h("span", null, ` Published as it is, it names people. ${column.suggestion.why}`),
      );
    suggestion.hidden = !suggestion.hasChildNodes();
    more.hidden = !dense && !(role === "quasi" || role === "sensitive");
  }

  function field(part, label, hint) {
    const id = freshId(part);
    const keep = (event) => {
      draft[part][column.name] = event.target.value;
      changed();
    };
    return h(
      "p",
      null,
      h("label", { for: id }, label),
      h("input", {
        id,
        type: "text",
        value: draft[part][column.name] ?? "",
        oninput: keep,
        "aria-describedby": `${id}-hint`,
        autocomplete: "off",
      }),
      h("small", { id: `${id}-hint`, class: "quiet" }, hint),
    );
  }

  const fields = () => {
    if (further.childElementCount > 1) return;
    if (dense) further.append(histogram(column));
    if (dense && column.suggestion) further.append(h("p", null, column.suggestion.why));
    further.append(
      field(
        "domain",
        "Stated domain",
        "Known from elsewhere, wider than what occurs: 0..120 or F,M,X. Empty: what occurs.",
      ),
      field("bins", "Bins", "For a column of numbers: 0,100,1000,inf."),
      field(
        "recode",
        "Coarser form",
        "round(5), top(90), year, month, prefix(3), rare(20), groups(a:x;b:x;*:other); steps follow one another with “then”.",
      ),
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: Boolean(draft.categorical[column.name]),
          onchange: (event) => {
            draft.categorical[column.name] = event.target.checked;
            changed();
          },
        }),
        " These numbers are names (codes, zip codes)",
      ),
    );
  };
  // made when it is opened: hundreds of columns have one each
  const further = h("details", { ontoggle: fields }, h("summary", null, dense ? "Details" : "More about this column"));
  put(more, further);
  const different = plural(column.distinct, dense ? "value" : "different value");
  const nulls = column.nulls || !dense ? `${column.nulls ? count(column.nulls) : "none"} missing` : null;
  const element = h(
    "li",
    { class: "card" },
    h(
      "div",
      { class: "card-head" },
      h("p", { class: "picked" }, pick, h("span", { class: "quiet" }, "select")),
      h("h2", { id: title, class: "column-name" }, column.name),
      h("p", { class: "quiet" }, [typeText(column.type), different, nulls].filter(Boolean).join(" · ")),
    ),
    dense ? null : histogram(column),
    h(
      "fieldset",
      { class: "segments", "aria-labelledby": title },
      h("legend", { class: "hidden" }, `Role of ${column.name}`),
      radios.map((radio, at) => h("label", null, radio, h("span", null, ROLES[at].title))),
    ),
    suggestion,
    more,
  );
  refresh();
  return { column, element, pick, refresh };
}
