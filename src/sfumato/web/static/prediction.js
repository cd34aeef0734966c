// What a promise means and costs on these data, asked of the server while the promise moves.

import { post } from "./api.js";
import { ceilingChart, errorChart } from "./charts.js";
import { announce, h, notice, problem, put, table } from "./dom.js";
import { legend, refold } from "./figures.js";
import { count, percent, plural, valueText } from "./format.js";

const MOST_BARS = 24;
const REST = 500; // milliseconds without a movement after which exact figures are asked for

export function predictionPanel(page, profile, useNearest) {
  const words = h("div", { class: "words" });
  const headline = h("p", { class: "headline", "data-state": "waiting" }, "Predicting…");
  const ceilings = ceilingChart();
  const errors = errorChart();
  const marks = [
    ["bar", "share in the table"],
    ["tick", "ceiling"],
  ];
  const ceilingPicture = h("div", null, legend(marks), ceilings.element);
  const ceilingNote = h("p", { class: "quiet" });
  const ceilingTable = h("div");
  const errorTable = h("div");
  const sketched = h("span");
  const beside = h("div", { class: "beside" });
  const charts = h(
    "div",
    { class: "charts" },
    h(
      "figure",
      null,
      h(
        "figcaption",
        null,
        h("h3", null, "What anybody may conclude"),
        h(
          "p",
          { class: "quiet" },
          "The largest chance that somebody may give a value for one person.",
        ),
      ),
      ceilingPicture,
      ceilingNote,
      ceilingTable,
    ),
    h(
      "figure",
      null,
      h(
        "figcaption",
        null,
        h("h3", null, "What analysts will see"),
        h(
          "p",
          { class: "quiet" },
          "The median error of a count, by how many people it counts. Errors above 100 % are drawn at 100 %.",
          profile.sensitive.length > 1 ? " Of several sensitive columns the worst is shown." : null,
        ),
      ),
      errors.element,
      errorTable,
    ),
  );
  const element = h("div", { class: "prediction" }, words, beside, charts);
  let asking = null; // what the server is being asked
  let next = null; // what moved meanwhile: only the latest is asked
  let saying = null;
  let refining = null; // the exact figures, asked for once the promise rests
  let tell = () => {};

  function ask(guarantee, mechanism, promise) {
    refining?.stop();
    next = { guarantee, mechanism, promise };
    element.setAttribute("aria-busy", "true");
    page.limits(`With ${promise.name}:`, promise.does_not_protect);
    if (!asking) send();
  }

  async function send() {
    const { guarantee, mechanism, promise } = next;
    next = null;
    asking = new AbortController();
    const body = { profile: profile.profile, guarantee };
    if (mechanism) body.mechanism = mechanism;
    try {
      const found = await post("/api/predict", body, { signal: asking.signal });
      if (!next) {
        draw(found, guarantee, promise);
        if (found.quick) refine(body, promise);
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!next) {
        charts.hidden = true;
        put(words, problem(error));
        refuse("This promise cannot be read.");
      }
    }
    asking = null;
    if (next) send();
    else element.removeAttribute("aria-busy");
  }

  /** Quick figures leave out mechanisms that count groups of people; those of all follow. */
  function refine(body, promise) {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await post(
          "/api/predict",
          { ...body, exact: true },
          { signal: control.signal },
        );
        if (!control.signal.aborted) draw(found, body.guarantee, promise);
      } catch {
        sketched.textContent = " (without mechanisms that count groups of people)";
      }
    }, REST);
    refining = {
      stop: () => {
        clearTimeout(timer);
        control.abort();
      },
    };
  }

  function say(text) {
    // a hand on the slider would otherwise be talked over
    clearTimeout(saying);
    saying = setTimeout(() => announce(text), 700);
  }

  /** Nothing can be published until the promise can be read again. */
  function refuse(text = "A number of the promise cannot be read.") {
    refining?.stop();
    next = null;
    put(headline, text);
    headline.dataset.state = "bad";
    tell(false);
  }

  function draw(found, guarantee, promise) {
    tell(found.feasible);
    charts.hidden = beside.hidden = !found.feasible;
    put(headline, found.feasible ? summary(found) : "These data do not allow this promise.");
    headline.dataset.state = found.feasible ? "good" : "bad";
    if (!found.feasible) {
      put(
        words,
        notice(
          "bad",
          "These data do not allow this promise.",
          h("p", null, found.reason),
          found.witness
            ? h("p", null, "What stands in the way: ", h("strong", null, found.witness))
            : null,
          found.nearest
            ? h(
                "p",
                null,
                h(
                  "button",
                  { type: "button", onclick: () => useNearest(found.nearest) },
                  "Use the nearest that can be kept",
                ),
                " ",
                h("code", null, found.nearest),
              )
            : null,
        ),
      );
      return;
    }
    sketched.textContent = found.quick ? " (the exact figures follow)" : "";
    const statements = [found.statement].flat().filter(Boolean);
    page.limits(`With ${promise.name}:`, found.does_not_protect ?? promise.does_not_protect);
    put(
      words,
      statements.map((sentence) => h("blockquote", null, sentence)),
      h(
        "p",
        { class: "quiet" },
        h("code", null, guarantee),
        " kept by ",
        h("code", null, found.mechanism),
        sketched,
      ),
      (found.notes ?? []).map((sentence) => h("p", null, sentence)),
      found.caveats?.length
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
    );
    drawBeside(found);
    drawCeilings(found);
    drawErrors(found);
    say(summary(found));
  }

  /** Risk and accuracy of the table as it is, and of a release under this promise. */
  function drawBeside(found) {
    const limited = found.ceilings.filter((one) => one.ceiling < 1);
    const rows = profile.sensitive.flatMap((column) => {
      const own = limited.filter((one) => one.column === column);
      const worst = own.length ? percent(Math.max(...own.map((one) => one.ceiling))) : "100 %";
      const usual = nearest(found.errors.filter((one) => one.column === column), 500);
      return [
        [`Largest chance that a reader gives somebody's ${column}`, "100 %", worst],
        usual ? [`A count of ${count(usual.count)} by ${column} is wrong by about`, "0 %", percent(usual.error)] : null,
      ];
    });
    const columns = [
      { title: "" },
      { title: "table", number: true },
      { title: "release", number: true },
    ];
    put(beside, table("Risk and accuracy, before and after", columns, rows.filter(Boolean)));
  }

  function drawCeilings(found) {
    const several = new Set(found.ceilings.map((one) => one.column)).size > 1;
    const error = new Map(
      (found.by_value ?? []).map((one) => [`${one.column ?? ""}\n${one.value}`, one.error]),
    );
    const rows = found.ceilings
      .map((one) => ({
        label: several ? `${one.column}: ${valueText(one.value)}` : valueText(one.value),
        share: one.share,
        ceiling: one.ceiling,
        error: error.get(`${one.column ?? ""}\n${one.value}`),
      }))
      .sort((a, b) => b.ceiling - b.share - (a.ceiling - a.share) || b.share - a.share);
    const free = rows.filter((row) => row.ceiling >= 1).length;
    const limits = rows.length > free;
    ceilingPicture.hidden = !limits;
    if (limits) ceilings.update(rows.slice(0, MOST_BARS));
    ceilingNote.textContent = !limits
      ? "This promise makes what concerns few people inaccurate. It sets no ceiling on a posterior."
      : [
          rows.length > MOST_BARS
            ? `Drawn: the ${MOST_BARS} of ${plural(rows.length, "value")} whose chance may rise most.`
            : "",
          free
            ? `${plural(free, "value")} without a ceiling: about ${free === 1 ? "it" : "them"} nothing is promised.`
            : "",
        ]
          .join(" ")
          .trim();
    refold(
      ceilingTable,
      "All ceilings as a table",
      "Ceiling and predicted error per value",
      [
        { title: "value" },
        { title: "share", number: true },
        { title: "ceiling", number: true },
        { title: "predicted error", number: true },
      ],
      rows.map((row) => [
        row.label,
        percent(row.share),
        row.ceiling >= 1 ? "none" : percent(row.ceiling),
        row.error === undefined ? "–" : percent(row.error),
      ]),
    );
  }

  function drawErrors(found) {
    errors.update(errorRows(found));
    refold(
      errorTable,
      "Predicted errors as a table",
      "Predicted error by size of count",
      [
        { title: "a count of", number: true },
        { title: "is wrong by about", number: true },
      ],
      errorsBySize(found).map((one) => [count(one.count), percent(one.error)]),
    );
  }

  return {
    element,
    headline,
    ask,
    refuse,
    onfeasible: (listener) => {
      tell = listener;
    },
    stop: () => {
      next = null;
      refining?.stop();
      clearTimeout(saying);
      asking?.abort();
    },
  };
}

/** The error at each size of count: with several sensitive columns, that of the worst. */
function errorsBySize(found) {
  const worst = new Map();
  for (const { count: size, error } of found.errors) {
    if (
      !worst.has(size) ||
      error === null ||
      (worst.get(size) !== null && error > worst.get(size))
    ) {
      worst.set(size, error);
    }
  }
  return [...worst]
    .map(([size, error]) => ({ count: size, error }))
    .sort((a, b) => a.count - b.count);
}

/** Rows for the error chart; what is worse than useless is drawn at 100 %. */
function errorRows(found) {
  return errorsBySize(found)
    .filter((one) => Number.isFinite(one.error))
    .map((one) => ({ count: one.count, shown: Math.min(1, one.error) }));
}

/** The prediction for the count that comes nearest to this size; null where there is none. */
function nearest(errors, size) {
  const far = (one) => Math.abs((one?.count ?? 1e9) - size);
  return errors.filter((one) => Number.isFinite(one.error)).reduce((best, one) => (far(one) < far(best) ? one : best), null);
}

/** The prediction in a sentence, for eyes and ears. */
function summary(found) {
  const said = [];
  const limited = found.ceilings.filter((one) => one.ceiling < 1);
  const free = found.ceilings.filter((one) => one.ceiling >= 1);
  if (limited.length)
    said.push(`Highest ceiling ${percent(Math.max(...limited.map((one) => one.ceiling)))}.`);
  if (limited.length && free.length) {
    const people = free.reduce((sum, one) => sum + one.share, 0);
    said.push(`No ceiling for ${percent(people)} of the people.`);
  }
  const errors = errorsBySize(found).filter((one) => Number.isFinite(one.error));
  const usual = nearest(errors, 500);
  if (usual)
    said.push(`A count of ${count(usual.count)} is wrong by about ${percent(usual.error)}.`);
  return said.join(" ") || "Can be kept.";
}
