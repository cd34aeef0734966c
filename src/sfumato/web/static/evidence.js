// Does a release hold? The audit's checks and what attacks reach.

import { finished, get, post, segment, ticketed } from "./api.js";
import { h, notice, problem, put, ticketLink } from "./dom.js";
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
  let last = null; // the newest run that came to an end: it stays in sight when another fails

  async function start() {
    const jobs = (await get("/api/jobs"))
      .filter((one) => one.kind === "evidence" && one.job === job.id)
      .sort((a, b) => (a.created < b.created ? 1 : -1));
    last = jobs.find((one) => one.state === "done") ?? null;
    if (jobs.length) await follow(jobs[0]);
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
    const text = last ? "Audit and attack it again" : "Audit and attack it";
    put(
      inside,
      trouble,
      last ? result(last) : null,
      settings(),
      h(
        "p",
        { class: "actions" },
        h("button", { type: "button", class: last ? null : "main", onclick: begin }, text),
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
      last = now;
      offer();
      if (focus) inside.querySelector("[tabindex]")?.focus({ preventScroll: true });
    } else
      offer(
        now.state === "failed"
          ? notice("bad", now.error || "The audit failed.")
          : notice("note", "The audit was cancelled."),
      );
  }

  /** What a finished run came to; the report has the figures. */
  function result(now) {
    const { holds, headline, findings, verdict, problems } = now.summary;
    return h(
      "div",
      { class: "verdict", tabindex: "-1" },
      notice(holds ? "good" : "bad", ADVICE[holds], h("p", null, headline)),
      findings.length ? h("ul", null, findings.map((text) => h("li", null, text))) : null,
      verdict.map((sentence) => h("p", null, sentence)),
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
      ),
      h(
        "p",
        { class: "quiet" },
        "The report is one page that can be printed and may go beside the release: it tells nothing that the release hides.",
      ),
    );
  }

  return { element, start, stop: () => stop() };
}

const ADVICE = {
  true: "The audit holds.",
  false: "The audit fails: do not give this release out.",
  null: "The audit is not complete: find out what is missing before you give this release out.",
};
