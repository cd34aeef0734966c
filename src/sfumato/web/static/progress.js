// A job on its way: how far it is, and how to stop it.

import { finished, post, segment, watch } from "./api.js";
import { announce, h, problem, put } from "./dom.js";
import { percent, timeText } from "./format.js";

/** Follow a job; `onEnd(job)` when it has finished. Returns {element, stop}. */
export function jobProgress(job, title, onEnd) {
  const bar = h("progress", { "aria-label": title });
  const stage = h("span");
  const share = h("span", { class: "share" });
  const time = h("p", { class: "quiet time-left" });
  const trouble = h("div");
  const cancel = h("button", { type: "button", class: "danger", onclick: stopJob }, "Cancel");
  const element = h(
    "div",
    { class: "progress" },
    h("p", { class: "progress-line" }, stage, share),
    bar,
    time,
    trouble,
    h("p", { class: "actions" }, cancel),
  );
  let said = "";
  let last = job;
  // a long step without news still shows that time passes
  const clock = setInterval(() => {
    time.textContent = timeText(last);
  }, 1000);

  async function stopJob() {
    cancel.disabled = true;
    stage.textContent = "Stopping…";
    try {
      await post(`/api/jobs/${segment(job.id)}/cancel`);
    } catch (error) {
      put(trouble, problem(error));
      cancel.disabled = false;
    }
  }

  function show(now) {
    last = now;
    time.textContent = timeText(now);
    const part = now.total ? Math.min(1, now.done / now.total) : null;
    if (part === null) bar.removeAttribute("value");
    else {
      bar.max = 1;
      bar.value = part;
    }
    if (!cancel.disabled)
      stage.textContent = now.state === "waiting" ? "Waiting for its turn" : now.stage || "Working";
    share.textContent = part === null ? "" : percent(part);
    // to a screen reader only what is new: the stage, and every quarter
    const news = `${stage.textContent}${part === null ? "" : ` ${percent(Math.floor(part * 4) / 4)}`}`;
    if (news !== said) announce(news);
    said = news;
  }

  function take(told) {
    const now = { ...last, ...told }; // a job that is gone is told of by its state alone
    if (!finished(now)) {
      show(now);
      return;
    }
    clearInterval(clock);
    announce(`${title}: ${now.state}`);
    window.dispatchEvent(new Event("sfumato-jobs"));
    onEnd(now);
  }

  function away() {
    stage.textContent = "The server does not answer. Trying again…";
  }

  show(job);
  const leave = watch(job.id, take, away);
  return {
    element,
    stop: () => {
      clearInterval(clock);
      leave();
    },
  };
}

/** The job of a button, in `place`: the button waits for it. `show` has a function of the job for each
 * state in which there is something to see; after any other `place` is empty. */
export function buttonJob(button, place, title, show) {
  let following = null;
  let left = false;

  function follow(job) {
    if (left) return;
    following?.stop();
    button.disabled = true;
    following = jobProgress(job, title, end);
    put(place, following.element);
  }

  function end(job) {
    button.disabled = false;
    if (job.state in show) show[job.state](job);
    else put(place);
    if (job.state === "cancelled") button.focus();
  }

  return {
    follow,
    /** Whether nothing was followed and nobody waits: a reload may go on with what ran before. */
    fresh: () => !following && !left && !button.disabled,
    stop: () => {
      left = true;
      following?.stop();
    },
  };
}
