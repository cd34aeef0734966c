// Step 3: move the promise and watch what it allows and what it costs, before anything is published.

import { get, post, segment, serverState } from "./api.js";
import { byCommand } from "./commands.js";
import { freshId, h, problem, put } from "./dom.js";
import { plural } from "./format.js";
import { goalBox } from "./goal.js";
import { readByColumn, readPromise, startingValues, writeByColumn, writePromise } from "./guarantee.js";
import { parameterFields } from "./parameters.js";
import { predictionPanel } from "./prediction.js";

// what every promise leaves open is told once it is foreseen
const EACH = { name: "a promise for each column", does_not_protect: [] };

export async function showPromise(page) {
  const [state, profile] = await Promise.all([
    serverState(),
    get(`/api/profiles/${segment(page.id)}`),
  ]);
  page.steps(2, { 0: "#/", 1: profile.table ? `#/table/${segment(profile.table)}` : null });
  page.title("Choose the promise");
  const allowed = new Map(profile.allowed.map((one) => [one.promise, one]));
  const promises = state.promises;
  const first = readPromise(state.default_promise, promises).promise;
  const asked = readPromise(page.query.get("g"), promises);
  const chosen = {
    promise: asked?.promise ?? first,
    text: page.query.get("g") ?? state.default_promise,
    mechanism: page.query.get("m") ?? "",
  };

  function startText(promise) {
    return allowed.get(promise.name)?.example ?? promise.example;
  }

  const fields = h("div");
  const mechanismBox = h("p", { class: "mechanism" });
  const textField = h("input", {
    type: "text",
    id: "as-text",
    class: "wide",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => typed(textField.value),
    "aria-describedby": "as-text-hint",
  });
  const mechanismField = h("input", {
    type: "text",
    id: "mechanism-text",
    class: "wide",
    autocomplete: "off",
    spellcheck: "false",
    onchange: () => {
      chosen.mechanism = mechanismField.value.trim();
      apply();
    },
    "aria-describedby": "mechanism-text-hint",
  });
  const panel = predictionPanel(page, profile, (nearest) => typed(nearest, true));
  const goal = goalBox(profile, (text) => {
    typed(text, true);
    panel.headline.scrollIntoView({ block: "nearest" });
  });
  const command = byCommand(profile, () => ({
    guarantee: chosen.text,
    mechanism: chosen.mechanism,
  }));

  /** Hold the choice in the address, so that a reload or a bookmark comes back to it. */
  function keep() {
    const query = new URLSearchParams();
    query.set("g", chosen.text);
    if (chosen.mechanism) query.set("m", chosen.mechanism);
    page.remember(query);
  }

  function apply({ redraw = true, retype = true } = {}) {
    if (retype) textField.value = chosen.text;
    if (redraw) drawFields();
    keep();
    panel.ask(chosen.text, chosen.mechanism, readByColumn(chosen.text) ? EACH : chosen.promise);
    command.changed();
  }

  /** One promise as text for each sensitive column. */
  function drawByColumn(parts) {
    const change = (part, field) => {
      part.text = field.value.trim();
      chosen.text = writeByColumn(parts);
      apply({ redraw: false });
    };
    put(
      fields,
      h("p", { class: "quiet" }, "Every sensitive column has a promise of its own."),
      parts.map((part) => {
        const id = freshId("column-promise");
        const field = h("input", { id, type: "text", class: "wide", value: part.text, spellcheck: "false" });
        field.addEventListener("change", () => change(part, field));
        return h("p", null, h("label", { for: id }, part.column), field);
      }),
      h(
        "p",
        null,
        h(
          "button",
          { type: "button", onclick: () => typed(state.default_promise, true) },
          "One promise for all of them",
        ),
      ),
    );
    chosen.mechanism = "";
    mechanismField.value = "";
    put(mechanismBox);
  }

  function drawFields() {
    const byColumn = readByColumn(chosen.text);
    if (byColumn) {
      drawByColumn(byColumn);
      return;
    }
    const values = startingValues(chosen.promise, promises, chosen.text);
    put(
      fields,
      parameterFields(chosen.promise, values, () => {
        chosen.text = writePromise(chosen.promise, values);
        apply({ redraw: false });
      }, allowed.get(chosen.promise.name)?.ends),
    );
    // a number that cannot be read must not leave the last one to be published
    fields.oninput = () => fields.querySelector("[aria-invalid]") && panel.refuse();
    const ways = chosen.promise.mechanisms ?? [];
    const meaning = h("small", { class: "quiet", id: "mechanism-meaning" });
    const select = h(
      "select",
      {
        id: "mechanism",
        "aria-describedby": "mechanism-meaning",
        onchange: () => takeMechanism(select, ways, meaning),
      },
      h("option", { value: "" }, "the best for these data"),
      ways.map((way) => h("option", { value: way.name }, labelOf(way))),
    );
    const named = chosen.mechanism.split("(")[0];
    if (!ways.some((way) => way.name === named)) chosen.mechanism = "";
    else if (named !== chosen.mechanism)
      select.append(h("option", { value: chosen.mechanism }, chosen.mechanism));
    select.value = chosen.mechanism;
    mechanismField.value = chosen.mechanism;
    say(ways, meaning);
    put(
      mechanismBox,
      h("label", { for: "mechanism" }, "Mechanism: the way to keep it"),
      select,
      meaning,
    );
  }

  /** "ring (a baseline)": what is not chosen by itself says so. */
  function labelOf(way) {
    if (way.chosen) return way.name;
    return `${way.name} (${way.standing === "baseline" ? "a baseline" : "on request"})`;
  }

  function say(ways, meaning) {
    meaning.textContent =
      ways.find((way) => way.name === chosen.mechanism.split("(")[0])?.sentence ??
      "The mechanism with the smallest predicted error is taken.";
  }

  function takeMechanism(select, ways, meaning) {
    chosen.mechanism = select.value;
    say(ways, meaning);
    apply({ redraw: false });
  }

  /** A promise that came as text: from the field, or as the nearest that can be kept. */
  function typed(text, fromServer = false) {
    chosen.text = text;
    const read = readPromise(text, promises);
    if (read) choose(read.promise, text);
    apply({ redraw: Boolean(read) || Boolean(readByColumn(text)), retype: fromServer });
  }

  function choose(promise, text) {
    chosen.promise = promise;
    chosen.text = text;
    for (const radio of list.querySelectorAll("input"))
      radio.checked = radio.value === promise.name;
  }

  const list = h(
    "fieldset",
    { class: "promises" },
    h("legend", null, "What is promised to each person"),
    promises.map((promise) =>
      promiseChoice(promise, allowed.get(promise.name), promise === chosen.promise, () => {
        choose(promise, startText(promise));
        apply();
      }),
    ),
  );

  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Choose the promise"),
    h(
      "p",
      { class: "lead" },
      h("strong", { class: "filename" }, profile.label ?? "The table"),
      ` has ${plural(profile.rows, "person", "people")}`,
      profile.table_rows > profile.rows
        ? ` in ${plural(profile.table_rows, "row")}: one row of each is published`
        : null,
      about(profile),
      ". Say what you need, or choose a promise yourself. Nothing is published yet.",
      profile.sensitive.length > 1 ? " Each sensitive column may have a promise of its own." : null,
    ),
    goal.element,
    h(
      "details",
      { class: "advanced", open: page.query.has("g") },
      h("summary", null, "Advanced: all promises"),
      list,
    ),
    h(
      "section",
      { class: "workbench", "aria-label": "The promise and what it costs" },
      panel.headline,
      h(
        "div",
        { class: "controls" },
        h("h2", null, "How strong"),
        fields,
        mechanismBox,
        h(
          "details",
          null,
          h("summary", null, "As text"),
          h(
            "p",
            null,
            h("label", { for: "as-text" }, "The promise"),
            textField,
            h(
              "small",
              { id: "as-text-hint", class: "quiet" },
              "As the command line takes it, for example f-privacy(limits=HIV:0.05;*:1).",
            ),
          ),
          h(
            "p",
            null,
            h("label", { for: "mechanism-text" }, "The mechanism"),
            mechanismField,
            h(
              "small",
              { id: "mechanism-text-hint", class: "quiet" },
              "With its settings, for example optimal(fakes=2). Empty: the best for these data.",
            ),
          ),
        ),
      ),
      panel.element,
    ),
    publishBox(profile, chosen, panel),
    command.element,
  );
  apply();
  return () => {
    panel.stop();
    goal.stop();
  };
}

function about(profile) {
  return profile.sensitive.map((name) => [
    ", ",
    h("strong", null, name),
    ` ${plural(profile.values[name], "value")}`,
  ]);
}

function promiseChoice(promise, verdict, checked, onchange) {
  const possible = verdict?.allowed !== false;
  return h(
    "label",
    { class: `promise ${possible ? "" : "impossible"}` },
    h("input", { type: "radio", name: "promise", value: promise.name, checked, onchange }),
    h(
      "span",
      { class: "promise-text" },
      h("strong", null, promise.title),
      " ",
      h("code", null, promise.name),
      " ",
      h(
        "span",
        { class: `tag ${possible ? "good" : "bad"}` },
        possible ? "these data allow it" : "not on these data",
      ),
      h("span", { class: "sentence" }, promise.sentence),
      verdict?.limit ? h("span", { class: "quiet limit" }, verdict.limit) : null,
    ),
  );
}

function publishBox(profile, chosen, panel) {
  const trouble = h("div");
  const name = h("input", {
    type: "text",
    id: "release-name",
    maxlength: "80",
    autocomplete: "off",
  });
  const leftOut = h("input", {
    type: "text",
    id: "left-out",
    inputmode: "decimal",
    maxlength: "10",
    placeholder: "0.25",
    autocomplete: "off",
  });
  const button = h("button", { type: "submit", class: "main" }, "Publish under this promise");
  panel.onfeasible((feasible) => {
    button.disabled = feasible === false;
  });

  async function publish(event) {
    event.preventDefault();
    button.disabled = true;
    const asked = { kind: "publish", profile: profile.profile, guarantee: chosen.text };
    if (chosen.mechanism) asked.mechanism = chosen.mechanism;
    if (name.value.trim()) asked.name = name.value.trim();
    if (leftOut.value.trim()) asked.left_out = leftOut.value.trim();
    try {
      const job = await post("/api/jobs", asked);
      location.hash = `#/job/${segment(job.id)}`;
    } catch (error) {
      put(trouble, problem(error));
      button.disabled = false;
    }
  }

  return h(
    "section",
    { class: "publish", "aria-labelledby": "publish-title" },
    h("h2", { id: "publish-title" }, "Publish"),
    h(
      "p",
      null,
      "The release is made on this machine and given to nobody until you download it and hand it out. Publish these people once: a second release with fresh draws tells more than either alone.",
    ),
    h(
      "form",
      { onsubmit: publish },
      h("p", null, h("label", { for: "release-name" }, "A name for it (optional)"), name),
      h(
        "p",
        null,
        h(
          "label",
          { for: "left-out" },
          "Largest share of people without a promise whose values may be shown (optional)",
        ),
        leftOut,
      ),
      trouble,
      h("p", { class: "actions" }, button),
    ),
  );
}
