// The counting of a table whose columns have roles: a job, which goes on while nobody looks.

import { finished, get, post, segment } from "./api.js";
import { h, problem, put } from "./dom.js";
import { moment } from "./format.js";
import { buttonJob } from "./progress.js";

/** Counting of a table, shown in `place`; `button` starts it and waits. */
export function counting(table, place, button) {
  const shown = buttonJob(button, place, "Counting the table", {
    done: (job) => {
      location.hash = promiseOf(job);
    },
    failed: (job) => failed(job.error),
  });

  function failed(sentence) {
    put(place, problem({ message: sentence }));
  }

  async function start(asked) {
    button.disabled = true;
    try {
      shown.follow(await post("/api/jobs", { kind: "counts", table, ...asked }));
    } catch (error) {
      button.disabled = false;
      failed(error.message);
    }
  }

  /** A reload, or another tab, goes on with the last counting. */
  async function resume() {
    const jobs = await get("/api/jobs");
    const last = jobs.find((job) => job.kind === "counts" && job.table === table);
    if (!last || !shown.fresh()) return;
    if (!finished(last)) shown.follow(last);
    else if (last.state === "failed") failed(last.error);
    else if (last.state === "done") put(place, known(last));
  }

  resume().catch((error) => put(place, problem(error)));
  return { start, stop: shown.stop };
}

function known(job) {
  const link = h("a", { href: promiseOf(job) }, "Go on with these counts");
  return h("p", { class: "quiet" }, `Counted on ${moment(job.finished)}. `, link, ", or continue to count anew.");
}

/** Where a promise is chosen for what was counted. */
function promiseOf(job) {
  return `#/profile/${segment(job.summary.profile)}`;
}

/** Where a job that counts is to be seen. */
export function countingAddress(job) {
  return job.state === "done" ? promiseOf(job) : `#/table/${segment(job.table)}`;
}
