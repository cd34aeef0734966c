// Does a release hold? The audit's checks and what attacks reach.

import { finished, get, post, segment, ticketed } from "./api.js";
import { attackChart } from "./charts.js";
import { h, notice, problem, put, table, ticketLink } from "./dom.js";
import { legend } from "./figures.js";
import { count, percent } from "./format.js";
import { jobProgress } from "./progress.js";

/** The evidence for a publish job: {element, start(), stop()}. */
export function evidenceBox(job) {
  const inside = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "evidence-title" },
    h("h2", { id: "evidence-title" }, "Does it hold?"),
    h(
      "p",
      null,
      "The audit checks the release against the table, independently of the code that made it. The attacks play adversaries and count how often they are right.",
    ),
    inside,
  );
  let stop = () => {};

  async function start() {
    const jobs = (await get("/api/jobs")).filter(
      (one) => one.kind === "evidence" && one.job === job.id,
    );
    const newest = jobs.sort((a, b) => (a.created < b.created ? 1 : -1))[0];
    if (newest) await follow(newest);
    else offer();
  }

  const targets = h("input", {
    type: "number",
    id: "targets",
    min: "1",
    step: "1",
    placeholder: "10000",
    class: "short",
  });
  const name = (id) =>
    h("input", { type: "text", id, class: "wide", maxlength: "200", autocomplete: "off" });
  const [tableName, author] = [name("table-name"), name("author")];
  const attacks = h("input", {
    type: "text",
    id: "attacks",
    class: "wide",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "attacks-hint",
  });

  function settings() {
    return h(
      "details",
      null,
      h("summary", null, "Names in the report, settings of the attacks"),
      h("p", null, h("label", { for: "table-name" }, "What the report calls the table"), tableName),
      h("p", null, h("label", { for: "author" }, "Who answers for the report"), author),
      h("p", null, h("label", { for: "targets" }, "People to attack, drawn at random, at most"), targets),
      h(
        "p",
        null,
        h("label", { for: "attacks" }, "Attacks"),
        attacks,
        h(
          "small",
          { id: "attacks-hint", class: "quiet" },
          "Names with their settings, one after the other: linkage corruption(known=2) naive-bayes(alpha=0). Empty: all.",
        ),
      ),
    );
  }

  function offer(trouble = null) {
    put(
      inside,
      trouble,
      settings(),
      h(
        "p",
        { class: "actions" },
        h("button", { type: "button", class: "main", onclick: begin }, "Audit and attack it"),
      ),
    );
  }

  async function begin(event) {
    event.target.disabled = true;
    try {
      const asked = { kind: "evidence", job: job.id };
      if (tableName.value.trim()) asked.table_name = tableName.value.trim();
      if (author.value.trim()) asked.author = author.value.trim();
      if (targets.value) asked.targets = Number(targets.value);
      if (attacks.value.trim()) asked.attacks = attacks.value.match(/[a-z-]+(\([^)]*\))?/g) ?? [];
      await follow(await post("/api/jobs", asked), true);
    } catch (error) {
      offer(problem(error));
    }
  }

  async function follow(now, focus = false) {
    stop();
    stop = () => {};
    if (!finished(now)) {
      const progress = jobProgress(now, "Audit and attacks", (last) => follow(last, true));
      stop = progress.stop;
      put(inside, progress.element);
      if (focus) progress.element.querySelector("button")?.focus();
    } else if (now.state === "done") {
      await draw(now);
      if (focus) inside.querySelector("[tabindex]")?.focus({ preventScroll: true });
    } else
      offer(
        now.state === "failed"
          ? notice("bad", now.error || "The audit failed.")
          : notice("note", "The audit was cancelled."),
      );
  }

  async function draw(now) {
    const found = await get(`/api/jobs/${segment(now.id)}/evidence`);
    const { audit, attacks, problems, utility } = found;
    put(
      inside,
      audit ? verdict(audit) : null,
      attacks.length ? attackFigures(attacks) : null,
      utility ? coverage(utility, found.covered_from) : null,
      problems.map((sentence) => notice("note", sentence)),
      h(
        "p",
        { class: "actions" },
        ticketLink(
          ticketed,
          `/api/jobs/${segment(now.id)}/report`,
          { class: "button", target: "_blank", rel: "noopener" },
          "Open the report",
        ),
        " ",
        h("button", { type: "button", class: "link", onclick: begin }, "Run it again"),
      ),
      settings(),
      h(
        "p",
        { class: "quiet" },
        "The report is one page that can be printed and may go beside the release: it tells nothing that the release hides. The figures on this page are for you alone.",
      ),
    );
  }

  return { element, start, stop: () => stop() };
}

const RESULTS = { true: "good", false: "bad", null: "quiet" };
const ADVICE = {
  true: "The audit holds.",
  false: "The audit fails: do not give this release out.",
  null: "The audit is not complete: find out what is missing before you give this release out.",
};

function verdict(audit) {
  const order = [false, null, true];
  const findings = order.flatMap((holds) => audit.findings.filter((one) => one.holds === holds));
  return h(
    "div",
    { class: "verdict", tabindex: "-1" },
    notice(
      audit.holds === null ? "bad" : RESULTS[audit.holds],
      ADVICE[audit.holds],
      h("p", null, audit.headline),
    ),
    table(
      "The audit's checks",
      [
        { title: "check" },
        { title: "result" },
        { title: "measured", number: true },
        { title: "limit", number: true },
        { title: "where" },
      ],
      findings.map((finding) => [
        finding.title,
        h("span", { class: `tag ${RESULTS[finding.holds]}` }, finding.result),
        finding.value_text,
        finding.limit_text,
        [finding.witness, ...finding.listed].filter(Boolean).join(", "),
      ]),
    ),
  );
}

function interval(range) {
  if (range === null || range === undefined) return "–";
  return `${percent(range.value)} (${percent(range.low)} … ${percent(range.high)})`;
}

const STANDINGS = {
  inside: ["good", "inside the promise"],
  partly: ["", "inside, about people for whom it gives no value more than rho1 beforehand"],
  outside: ["quiet", "outside the promise"],
};

function standing(attack) {
  const [tone, text] = STANDINGS[attack.standing] ?? ["quiet", "not known"];
  return h("span", { class: `tag ${tone}` }, text);
}

function attackFigures(attacks) {
  const several = new Set(attacks.map((one) => one.column)).size > 1;
  const name = (one) => (several ? `${one.attack} on ${one.column}` : one.attack);
  const limits = attacks.map((one) => one.ceiling).filter(Number.isFinite);
  const ceiling = limits.length ? Math.max(...limits) : null;
  const chart = attackChart(ceiling);
  chart.update(
    attacks.map((one) => ({
      label: name(one),
      prior: one.prior,
      inside: one.standing === "inside" ? "inside the promise" : "outside, or only partly inside",
      ...one.success,
    })),
  );
  const columns = [
    { title: "attack", cell: name },
    { title: "who it is", cell: (one) => h("span", { class: "who-it-is" }, one.sentence) },
    { title: "the promise", cell: standing },
    { title: "right guesses", cell: (one) => interval(one.success), number: true },
    { title: "best guess without any release", cell: (one) => percent(one.prior), number: true },
    { title: "gain", cell: (one) => interval(one.advantage), number: true },
    { title: "over", cell: (one) => one.over },
  ];
  const marks = [
    ["dot", "right guesses of an adversary inside the promise, with their interval"],
    ["ring", "of one outside it, or only partly inside"],
    ["diamond", "best guess without any release"],
  ];
  if (ceiling !== null) marks.push(["line", `highest ceiling promised, ${percent(ceiling)}`]);
  return h(
    "div",
    { class: "attacks" },
    h("h3", null, "What attacks reach"),
    h(
      "p",
      null,
      ceiling === null
        ? "This promise sets no ceiling on the posterior about one person, so there is none to hold these adversaries to."
        : "The ceiling holds for adversaries inside the promise. Those outside know more than the promise speaks of, and may go beyond it: that is what to weigh before you give the release out.",
    ),
    legend(marks),
    chart.element,
    table(
      "The attacks",
      columns,
      attacks.map((one) => columns.map((column) => column.cell(one))),
    ),
  );
}

/** How often intervals held the truth; red where that is too little. */
export function covered(share, least = 0.93) {
  if (!Number.isFinite(share)) return "–";
  return h("span", { class: `tag ${share < least ? "bad" : "good"}` }, percent(share));
}

function coverage(utility, least) {
  const size = (one) =>
    one.to === null ? `${count(one.from)} and more` : `${count(one.from)} to ${count(one.to)}`;
  const short = [utility.covered, ...utility.by_count.map((one) => one.covered)].some(
    (share) => Number.isFinite(share) && share < least,
  );
  return h(
    "div",
    { class: "coverage" },
    h("h3", null, "Do the intervals hold?"),
    h(
      "p",
      null,
      "Analysts get a 95 % interval with every answer. Of the questions asked here, the interval held the truth in ",
      covered(utility.covered, least),
      ".",
      short
        ? ` Below ${percent(least)} an interval promises more than it keeps: say so to analysts.`
        : null,
    ),
    utility.by_count.length
      ? table(
          "Answers by the size of the true count",
          [
            { title: "true count" },
            { title: "questions", number: true },
            { title: "mean error", number: true },
            { title: "truth inside the interval", number: true },
          ],
          utility.by_count.map((one) => [
            size(one),
            count(one.questions),
            percent(one.mean_relative_error),
            covered(one.covered, least),
          ]),
        )
      : null,
  );
}
