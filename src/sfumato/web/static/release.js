// A release: its promise, the download, the evidence, and questions to it.

import { remove, segment, ticketed } from "./api.js";
import { askBox, example } from "./ask.js";
import { copyable, h, put, sureButton, ticketLink } from "./dom.js";
import { evidenceBox } from "./evidence.js";
import { bytes, moment, plural } from "./format.js";

/** Draw the release; returns what stops it. */
export async function releaseView(page, job, back) {
  const summary = job.summary ?? {};
  const guarantee = summary.guarantee ?? job.guarantee;
  page.limits(`This release, ${guarantee}:`, summary.does_not_protect ?? []);
  const evidence = evidenceBox(job);
  const facts = [
    plural(summary.rows ?? 0, "row"),
    summary.suppressed ? `${plural(summary.suppressed, "row")} suppressed` : null,
    summary.bytes ? bytes(summary.bytes) : null,
    moment(job.created),
  ];
  put(
    page.view,
    h("h1", { tabindex: "-1" }, job.name || "The release"),
    h("p", { class: "lead" }, facts.filter(Boolean).join(" · ")),
    h(
      "section",
      { "aria-labelledby": "promise-title" },
      h("h2", { id: "promise-title" }, "What it promises"),
      [summary.statement]
        .flat()
        .filter(Boolean)
        .map((sentence) => h("blockquote", null, sentence)),
      h(
        "p",
        { class: "quiet" },
        h("code", null, guarantee),
        " kept by ",
        h("code", null, summary.mechanism ?? job.mechanism ?? ""),
      ),
      summary.caveats?.length
        ? h(
            "div",
            { class: "caveats" },
            h("h3", null, "Beside the promise"),
            h(
              "ul",
              null,
              summary.caveats.map((sentence) => h("li", null, sentence)),
            ),
          )
        : null,
      summary.notes?.length
        ? h(
            "div",
            { class: "caveats" },
            h("h3", null, "Not for publication: from the counts of the table"),
            h(
              "ul",
              null,
              summary.notes.map((sentence) => h("li", null, sentence)),
            ),
          )
        : null,
    ),
    evidence.element,
    h(
      "section",
      { "aria-labelledby": "give-title" },
      h("h2", { id: "give-title" }, "Give it out"),
      h(
        "p",
        { class: "actions" },
        ticketLink(
          ticketed,
          `/api/jobs/${segment(job.id)}/release.zip`,
          { class: "button main" },
          "Download the release",
        ),
        back ? h("a", { class: "button", href: back }, "Back to the promise") : null,
      ),
      h(
        "p",
        { class: "quiet" },
        "One file that holds the release folder: what you give out. The table stays with you. Read the audit first.",
      ),
    ),
    askBox({ job: job.id }, summary).element,
    forAnalysts(summary),
    forget(job),
  );
  await evidence.start();
  return evidence.stop;
}

/** What whoever gets the release writes first, in a notebook or a terminal. */
function forAnalysts(summary) {
  const question = example(summary);
  const python = `import sfumato as sf\n\nrelease = sf.open("release")\nrelease.sql(${JSON.stringify(question)})`;
  return h(
    "section",
    { "aria-labelledby": "analyst-title" },
    h("h2", { id: "analyst-title" }, "For the analyst"),
    h("p", null, "Ordinary SQL, answered with an interval. In a notebook:"),
    copyable(python),
    h("p", null, "In a terminal:"),
    copyable(`sfumato query release '${question.replaceAll("'", "'\\''")}'`),
  );
}

function forget(job) {
  const go = async () => {
    await remove(`/api/jobs/${segment(job.id)}`);
    location.hash = "#/jobs";
  };
  return h(
    "div",
    { class: "forget" },
    sureButton(
      {
        text: "Remove this release from the server",
        title: "Remove this release from the server?",
        sentence: "Its files are deleted. What you have downloaded stays.",
      },
      go,
    ),
  );
}
