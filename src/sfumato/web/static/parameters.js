// The parameters of a promise: a slider and a field for each, with what less and more of it does.

import { freshId, h } from "./dom.js";
import { figure } from "./format.js";
import { numberOf, scaleOf } from "./guarantee.js";

/** Fields that write into `values` and call `changed`. */
export function parameterFields(promise, values, changed, ends = {}) {
  return promise.parameters.map((parameter) => {
    if (parameter.kind === "choice") return choice(parameter, values, changed);
    // a slider ends where the data end; a number beyond can still be typed
    const [least, most] = ends[parameter.name] ?? [parameter.least, parameter.most];
    const narrowed = {
      ...parameter,
      least: Math.max(least, parameter.least),
      most: ends[parameter.name] ? most : parameter.most,
    };
    return slider(narrowed, values, changed, Boolean(ends[parameter.name]));
  });
}

function choice(parameter, values, changed) {
  const id = freshId("parameter");
  const take = (event) => {
    values[parameter.name] = event.target.value;
    changed();
  };
  return h(
    "p",
    { class: "parameter" },
    h("label", { for: id }, parameter.title),
    h(
      "select",
      { id, onchange: take },
      (parameter.choices ?? []).map((one) =>
        h("option", { value: one, selected: String(values[parameter.name]) === String(one) }, one),
      ),
    ),
  );
}

function slider(parameter, values, changed, ofData) {
  const id = freshId("parameter");
  const scale = scaleOf(parameter);
  const range = h("input", {
    type: "range",
    id,
    min: "0",
    max: String(scale.steps),
    step: "1",
    "aria-describedby": `${id}-effect`,
    oninput: slide,
  });
  const field = h("input", {
    type: "text",
    inputmode: "decimal",
    class: "short",
    "aria-label": `${parameter.title}, as a number`,
    autocomplete: "off",
    oninput: type,
  });

  function place() {
    const number = numberOf(values[parameter.name]);
    if (!Number.isNaN(number)) range.value = String(scale.position(number));
    range.setAttribute("aria-valuetext", String(values[parameter.name] || "not set"));
  }

  function slide() {
    values[parameter.name] = scale.value(Number(range.value));
    field.value = values[parameter.name];
    field.removeAttribute("aria-invalid");
    range.setAttribute("aria-valuetext", values[parameter.name]);
    changed();
  }

  function type() {
    const empty = field.value.trim() === "";
    const wrong = !empty && Number.isNaN(numberOf(field.value));
    if (wrong) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (wrong || (empty && parameter.default === undefined)) return;
    values[parameter.name] = field.value.trim();
    place();
    changed();
  }

  field.value = String(values[parameter.name] ?? "");
  place();
  return h(
    "div",
    { class: "parameter" },
    h("div", { class: "parameter-head" }, h("label", { for: id }, parameter.title), field),
    range,
    ofData
      ? h(
          "p",
          { class: "quiet ends" },
          `In these data: ${figure(parameter.least)} to ${figure(parameter.most)}.`,
        )
      : null,
    h(
      "p",
      { class: "effects", id: `${id}-effect` },
      h("span", null, h("b", null, "Less: "), parameter.less),
      h("span", null, h("b", null, "More: "), parameter.more),
    ),
  );
}
