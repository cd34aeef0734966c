// A job: on its way, or what became of it.

import { finished, get, remove, segment, serverState } from "./api.js";
import { countingAddress } from "./counting.js";
import { h, notice, put, sureButton } from "./dom.js";
import { moment } from "./format.js";
import { jobProgress } from "./progress.js";
import { releaseView } from "./release.js";

const TITLES = { publish: "Publishing", evidence: "Audit and attacks" };

export async function showJob(page) {
  const job = await get(`/api/jobs/${segment(page.id)}`);
  if (job.kind === "evidence" && job.job) {
    location.replace(`#/job/${segment(job.job)}`); // it is read beside the release that it is about
    return null;
  }
  if (job.kind === "counts") {
    location.replace(countingAddress(job));
    return null;
  }
  if (job.kind === "cards") {
    location.replace(promiseAddress(job)); // and these where a promise is chosen
    return null;
  }
  await page.usualLimits();
  const back = job.profile ? promiseAddress(job) : null;
  let stop = () => {};
  window.dispatchEvent(new Event("sfumato-jobs"));

  async function draw(now) {
    stop();
    stop = () => {};
    page.steps(now.kind === "publish" && now.state === "done" ? 4 : 3, { 0: "#/", 2: back });
    page.title(`${now.name || TITLES[now.kind]}: ${now.state}`);
    if (!finished(now)) running(now);
    else if (now.state !== "done") ended(now);
    else stop = await releaseView(page, now, back);
  }

  function head(now, title) {
    return [
      h("h1", { tabindex: "-1" }, title),
      h(
        "p",
        { class: "lead" },
        [now.name, asked(now), moment(now.created)]
          .filter(Boolean)
          .map((part, place) => [place ? " · " : null, part]),
      ),
    ];
  }

  async function running(now) {
    const progress = jobProgress(now, TITLES[now.kind], (last) => {
      draw(last).then(() => page.view.querySelector("h1")?.focus());
    });
    stop = progress.stop;
    put(
      page.view,
      head(now, `${TITLES[now.kind]}…`),
      progress.element,
      h(
        "p",
        { class: "quiet" },
        "You may leave this page: the work goes on, and stands under Jobs.",
      ),
    );
    const promise = (await serverState()).promises.find((one) =>
      now.guarantee?.startsWith(one.name),
    );
    if (promise && page.current()) page.limits(`With ${promise.name}:`, promise.does_not_protect);
  }

  function ended(now) {
    const failed = now.state === "failed";
    put(
      page.view,
      head(now, failed ? "This did not work" : "Cancelled"),
      failed
        ? notice("bad", now.error || "The job failed.")
        : notice("note", "The work was stopped and its files were removed. Nothing of it is left."),
      h(
        "p",
        { class: "actions" },
        back ? h("a", { class: "button", href: back }, "Back to the promise") : null,
        removal(now),
      ),
    );
  }

  function removal(now) {
    return sureButton(
      {
        text: "Remove it from the list",
        title: "Remove this job?",
        sentence: "Its record and its files on this server are deleted.",
      },
      async () => {
        await remove(`/api/jobs/${segment(now.id)}`);
        location.hash = "#/jobs";
      },
    );
  }

  await draw(job);
  return () => stop();
}

function asked(job) {
  if (!job.guarantee) return null;
  return h("code", null, job.guarantee);
}

function promiseAddress(job) {
  const query = new URLSearchParams();
  if (job.guarantee) query.set("g", job.guarantee);
  if (job.mechanism) query.set("m", job.mechanism);
  const text = query.toString();
  return `#/profile/${segment(job.profile)}${text ? `?${text}` : ""}`;
}
