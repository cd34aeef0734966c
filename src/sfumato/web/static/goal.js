// What the steward needs, in words; three promises that answer it.

import { get, post } from "./api.js";
import { freshId, h, notice, problem, put } from "./dom.js";
import { count, percent, valueText } from "./format.js";
import { buttonJob } from "./progress.js";

const ERRORS = ["0.05", "0.1", "0.2", "0.3"];
const WAYS = {
  safer: "More protected, less exact",
  balanced: "As exact as you asked",
  sharper: "More exact, less protected",
};

/** Questions and cards; `use(guarantee)` is called with the one that is taken. */
export function goalBox(profile, use) {
  const found = h("div", { class: "goal-cards", "aria-live": "polite" });
  const id = freshId("goal");
  const error = choice("error", "How wrong may a count of 500 people be?", ERRORS, "0.1");
  const anybody = h("input", { type: "checkbox", id: `${id}-anybody` });
  const values = [...new Set(profile.histogram.flatMap((one) => one.bars.map((bar) => bar.label)))];
  const guarded = h(
    "select",
    { id: `${id}-guarded`, multiple: true, size: String(Math.min(5, Math.max(2, values.length))) },
    values.map((value) => h("option", { value }, valueText(value))),
  );
  const button = h("button", { type: "submit", class: "main" }, "Show three promises");
  const search = buttonJob(button, found, "Looking for promises", {
    done: (job) => put(found, job.summary.cards.map(card)),
    failed: (job) => put(found, notice("bad", job.error)),
  });

  function choice(name, question, list, usual) {
    return h(
      "fieldset",
      { class: "choices row" },
      h("legend", null, question),
      list.map((value) =>
        h(
          "label",
          null,
          h("input", { type: "radio", name, value, checked: value === usual }),
          h("span", null, percent(Number(value))),
        ),
      ),
    );
  }

  /** A reload, or another tab, goes on with the last search. */
  async function resume() {
    const jobs = await get("/api/jobs");
    const last = jobs.find((job) => job.kind === "cards" && job.profile === profile.profile);
    if (!last || last.state === "cancelled" || !search.fresh()) return;
    for (const radio of error.querySelectorAll("input"))
      radio.checked = Number(radio.value) === last.wished;
    for (const option of guarded.options) option.selected = last.guarded.includes(option.value);
    anybody.checked = last.anybody;
    search.follow(last);
  }

  async function ask(event) {
    event.preventDefault();
    button.disabled = true;
    const body = {
      kind: "cards",
      profile: profile.profile,
      error: Number(error.querySelector("input:checked").value),
      guarded: [...guarded.selectedOptions].map((option) => option.value),
      anybody: anybody.checked,
    };
    try {
      search.follow(await post("/api/jobs", body));
    } catch (wrong) {
      put(found, problem(wrong));
      button.disabled = false;
    }
  }

  function card(one) {
    const title = freshId("card");
    const head = h("h3", { id: title }, one.way);
    const lead = h("p", { class: "quiet" }, WAYS[one.way]);
    if (!one.guarantee)
      return h(
        "article",
        { class: "goal-card", "aria-labelledby": title },
        head,
        lead,
        notice("note", `No promise here keeps a count of ${count(one.count)} within ${percent(one.wished)}.`),
      );
    const take = h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => {
          for (const other of found.querySelectorAll("[aria-pressed]"))
            other.setAttribute("aria-pressed", String(other === take));
          use(one.guarantee);
        },
      },
      `Use the ${one.way} promise`,
    );
    return h(
      "article",
      { class: "goal-card", "aria-labelledby": title },
      head,
      lead,
      h(
        "dl",
        null,
        one.columns.map((column) => columnFacts(column, one)),
        fact("Holds against", one.against),
      ),
      h("p", null, h("code", null, one.guarantee)),
      h("p", { class: "actions" }, take),
    );
  }

  /** What a column's most exposed value may come to, and how wrong counts are. */
  function columnFacts(column, one) {
    const of = one.columns.length > 1 ? ` of ${column.column}` : "";
    const worst = [valueText(column.value), ": ", percent(column.share), " → ", percent(column.ceiling)];
    const free = column.without_promise;
    return [
      fact(`Worst value${of}`, worst),
      free > 0 || !of ? fact(`People with no promise${of && ` about ${column.column}`}`, percent(free), free > 0) : null,
      fact(`A count of ${count(one.count)}${of} is wrong by about`, percent(column.error)),
    ];
  }

  function fact(name, value, warn = false) {
    return h("div", null, h("dt", null, name), h("dd", { class: warn ? "warn" : null }, value));
  }

  const element = h(
    "section",
    { class: "goal", "aria-labelledby": "goal-title" },
    h("h2", { id: "goal-title" }, "What do you need?"),
    h(
      "form",
      { onsubmit: ask },
      error,
      h(
        "div",
        { class: "goal-more" },
        h(
          "p",
          null,
          h("label", { for: `${id}-guarded` }, "Which values need most protection? (optional)"),
          guarded,
          h(
            "small",
            { class: "quiet" },
            "Nobody may give one more than 1 in 10, or three times its share.",
          ),
        ),
        h(
          "p",
          null,
          h("b", null, "Who might look?"),
          h(
            "label",
            { class: "check", for: `${id}-anybody` },
            anybody,
            " Also people who know much about a person: hold against anybody",
          ),
        ),
      ),
      h("p", { class: "actions" }, button),
    ),
    found,
  );
  resume().catch((wrong) => put(found, problem(wrong)));
  return { element, stop: search.stop };
}
