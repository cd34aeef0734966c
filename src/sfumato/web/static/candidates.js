// Two or three promises side by side: predicted at once, measured by a job if wanted.

import { post, segment } from "./api.js";
import { errorChart } from "./charts.js";
import { announce, h, problem, put, table } from "./dom.js";
import { count, percent } from "./format.js";
import { errorRows, errorsBySize } from "./prediction.js";

const MOST = 3;
const MARKS = ["solid", "dashed", "dotted"];

export function candidateTray(page, profile, current, keep) {
  const found = new Map(); // predictions by text
  const list = h("ol", { class: "candidates" });
  const shown = h("div");
  const trouble = h("div");
  const add = h(
    "button",
    { type: "button", onclick: addCurrent },
    "Keep this promise as a candidate",
  );
  const run = h("button", { type: "button", onclick: compare }, "Compare them in full");
  const hint = h("p", { class: "quiet" });
  let candidates = page.query.getAll("c").slice(0, MOST).map(read);
  let stopped = false;

  function text(candidate) {
    return `${candidate.guarantee}~${candidate.mechanism}`;
  }

  function read(written) {
    const at = written.lastIndexOf("~");
    return at < 0
      ? { guarantee: written, mechanism: "" }
      : { guarantee: written.slice(0, at), mechanism: written.slice(at + 1) };
  }

  function addCurrent() {
    candidates.push({ ...current() });
    announce(`${candidates.length} of ${MOST} candidates kept`);
    keep();
    changed();
    draw();
  }

  function drop(candidate) {
    candidates = candidates.filter((one) => one !== candidate);
    keep();
    changed();
    draw();
    add.focus();
  }

  /** Call when the promise on the page has moved. */
  function changed() {
    const here = text(current());
    add.disabled = candidates.length >= MOST || candidates.some((one) => text(one) === here);
    run.hidden = candidates.length < 2;
    hint.textContent =
      candidates.length >= MOST
        ? "Three at most: remove one to keep another."
        : candidates.length === 1
          ? "Move the promise and keep one more to compare."
          : "";
  }

  async function draw() {
    put(
      list,
      candidates.map((candidate, place) =>
        h(
          "li",
          null,
          h("span", { class: `mark ${MARKS[place]}`, "aria-hidden": "true" }),
          h("code", null, candidate.guarantee),
          candidate.mechanism ? [" by ", h("code", null, candidate.mechanism)] : null,
          " ",
          h(
            "button",
            {
              type: "button",
              class: "link",
              "aria-label": `Remove ${candidate.guarantee}`,
              onclick: () => drop(candidate),
            },
            "Remove",
          ),
        ),
      ),
    );
    const asked = [...candidates];
    try {
      await Promise.all(asked.map(predict));
    } catch (error) {
      put(shown, problem(error));
      return;
    }
    if (stopped || asked.length !== candidates.length) return;
    put(
      shown,
      asked.length < 2
        ? null
        : sideBySide(asked.map((one) => ({ ...one, ...found.get(text(one)) }))),
    );
  }

  async function predict(candidate) {
    const name = text(candidate);
    if (found.has(name)) return;
    const body = { profile: profile.profile, guarantee: candidate.guarantee };
    if (candidate.mechanism) body.mechanism = candidate.mechanism;
    found.set(name, await post("/api/predict", body));
  }

  async function compare() {
    run.disabled = true;
    const asked = candidates.map((one) => (one.mechanism ? one : { guarantee: one.guarantee }));
    try {
      const job = await post("/api/jobs", {
        kind: "compare",
        profile: profile.profile,
        candidates: asked,
      });
      location.hash = `#/job/${segment(job.id)}`;
    } catch (error) {
      put(trouble, problem(error));
      run.disabled = false;
    }
  }

  const element = h(
    "section",
    { class: "compare", "aria-labelledby": "compare-title" },
    h("h2", { id: "compare-title" }, "Compare candidates"),
    h(
      "p",
      null,
      "Keep two or three promises and see them side by side. Comparing in full makes a private release of each, asks it a thousand questions and attacks it.",
    ),
    list,
    shown,
    trouble,
    hint,
    h("p", { class: "actions" }, add, run),
  );
  if (candidates.length) draw();
  return {
    element,
    changed,
    texts: () => candidates.map(text),
    stop: () => {
      stopped = true;
    },
  };
}

function sideBySide(candidates) {
  const feasible = candidates.filter((one) => one.feasible);
  const sizes = feasible.length ? errorsBySize(feasible[0]).map((one) => one.count) : [];
  const picked = [0.25, 0.5, 0.75, 1]
    .map((share) => sizes[Math.round(share * (sizes.length - 1))])
    .filter((size, place, all) => size !== undefined && all.indexOf(size) === place);
  const name = (one, place) => `${place + 1}. ${one.guarantee}`;
  const columns = [
    { title: "candidate" },
    { title: "kept by" },
    { title: "highest ceiling", number: true },
    ...picked.map((size) => ({ title: `error of a count of ${count(size)}`, number: true })),
  ];
  const rows = candidates.map((one, place) => {
    if (!one.feasible) return [name(one, place), "cannot be kept", "–", ...picked.map(() => "–")];
    const error = new Map(errorsBySize(one).map((each) => [each.count, each.error]));
    const limited = one.ceilings.map((each) => each.ceiling);
    return [
      name(one, place),
      one.mechanism,
      percent(Math.max(...limited)),
      ...picked.map((size) => percent(error.get(size))),
    ];
  });
  const names = candidates.map(name);
  const chart = errorChart(names);
  chart.update(
    candidates.flatMap((one, place) => (one.feasible ? errorRows(one, names[place]) : [])),
  );
  return h(
    "div",
    { class: "side-by-side" },
    h(
      "figure",
      null,
      h("figcaption", { class: "quiet" }, "Predicted error by size of count"),
      chart.element,
    ),
    table("The candidates side by side, as predicted", columns, rows),
  );
}
