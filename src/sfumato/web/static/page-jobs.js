// Earlier jobs of this server, and those that run.

import { finished, get, post, remove, segment } from "./api.js";
import { h, problem, put, sureButton } from "./dom.js";
import { moment, percent, timeText } from "./format.js";

const KINDS = {
  publish: "Release",
  evidence: "Audit and attacks",
  counts: "Counts",
  cards: "Three promises",
};
const STATES = {
  waiting: "waiting",
  running: "running",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
};
const AGAIN = 1500; // milliseconds until running jobs are asked again

export async function showJobs(page) {
  page.steps(-1);
  page.title("Jobs");
  await page.usualLimits();
  const list = h("div");
  put(
    page.view,
    h("h1", { tabindex: "-1" }, "Jobs"),
    h(
      "p",
      { class: "lead" },
      "What this server has made and is making. It stays when the page is closed and when the server is started again.",
    ),
    list,
  );
  let timer = null;
  const entries = new Map(); // by id, so that the focus stays where it is while figures change

  async function refresh() {
    let running = false;
    try {
      const jobs = await get("/api/jobs");
      if (!page.current()) return;
      jobs.sort((a, b) => (a.created < b.created ? 1 : -1));
      running = jobs.some((job) => !finished(job));
      draw(jobs);
    } catch (error) {
      put(list, problem(error));
      entries.clear();
      running = true;
    }
    if (running) timer = setTimeout(refresh, AGAIN);
  }

  function draw(jobs) {
    if (jobs.length === 0) {
      put(
        list,
        h(
          "p",
          { class: "quiet" },
          "None yet. ",
          h("a", { href: "#/" }, "Choose a table"),
          " to make the first release.",
        ),
      );
      return;
    }
    const known = new Set(jobs.map((job) => job.id));
    for (const id of entries.keys()) if (!known.has(id)) entries.delete(id);
    for (const job of jobs) {
      const signature = JSON.stringify(job);
      if (entries.get(job.id)?.signature === signature) continue;
      const focused = entries.get(job.id)?.element.contains(document.activeElement);
      const element = entry(job, refresh);
      entries.set(job.id, { signature, element });
      if (focused) requestAnimationFrame(() => element.querySelector("a, button")?.focus());
    }
    const wanted = jobs.map((job) => entries.get(job.id).element);
    const present = [...list.querySelectorAll(":scope > ul > li")];
    if (
      wanted.length !== present.length ||
      wanted.some((element, place) => element !== present[place])
    )
      put(list, h("ul", { class: "jobs" }, wanted));
  }

  await refresh();
  return () => clearTimeout(timer);
}

function entry(job, refresh) {
  const trouble = h("div");
  const title = job.name || KINDS[job.kind];
  const part = job.total ? Math.min(1, job.done / job.total) : null;
  async function drop() {
    await remove(`/api/jobs/${segment(job.id)}`);
    await refresh();
    document.querySelector("#main h1")?.focus();
  }

  async function cancel(event) {
    event.target.disabled = true;
    try {
      await post(`/api/jobs/${segment(job.id)}/cancel`);
      await refresh();
    } catch (error) {
      put(trouble, problem(error));
    }
  }
  return h(
    "li",
    { class: `job ${job.state}` },
    h(
      "div",
      { class: "job-head" },
      h(
        "a",
        { href: `#/job/${segment(job.kind === "evidence" && job.job ? job.job : job.id)}` },
        title,
      ),
      h(
        "span",
        { class: `tag ${job.state === "done" ? "good" : job.state === "failed" ? "bad" : ""}` },
        STATES[job.state] ?? job.state,
      ),
    ),
    h(
      "p",
      { class: "quiet" },
      [job.name ? KINDS[job.kind] : null, job.guarantee, moment(job.created)].filter(Boolean).join(" · "),
    ),
    finished(job)
      ? null
      : h(
          "p",
          { class: "job-progress" },
          h("progress", {
            max: "1",
            value: part === null ? undefined : part,
            "aria-label": `Progress of ${title}`,
          }),
          h(
            "span",
            { class: "quiet" },
            [` ${job.stage || "waiting"}`, part === null ? null : percent(part), timeText(job)]
              .filter(Boolean)
              .join(", "),
          ),
        ),
    job.error ? h("p", { class: "quiet" }, job.error) : null,
    trouble,
    finished(job)
      ? sureButton(
          {
            text: "Remove",
            label: `Remove ${title} of ${moment(job.created)}`,
            title: `Remove ${title}?`,
            sentence: "Its files on this server are deleted. What you have downloaded stays.",
          },
          drop,
        )
      : h(
          "button",
          { type: "button", class: "link", "aria-label": `Cancel ${title}`, onclick: cancel },
          "Cancel",
        ),
  );
}
