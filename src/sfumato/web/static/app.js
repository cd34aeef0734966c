// The shell: which page the address names, the steps above it, the limits beside it.

import { finished, get, newLink, serverState, signIn, signOut } from "./api.js";
import { announce, h, problem, put } from "./dom.js";
import { showColumns } from "./page-columns.js";
import { showExplore } from "./page-explore.js";
import { showJob } from "./page-job.js";
import { showJobs } from "./page-jobs.js";
import { showPromise } from "./page-promise.js";
import { showStart } from "./page-start.js";

const main = document.getElementById("main");
const STEPS = ["Table", "Columns", "Promise", "Publish", "Release"];
const PAGES = {
  "": showStart,
  table: showColumns,
  profile: showPromise,
  job: showJob,
  jobs: showJobs,
  explore: showExplore,
};

let leave = null; // what the page that is shown wants done when it goes
let shown = null; // the path that is shown
let visit = 0;

/** "#/profile/7?g=l-diversity(5)" → {page: "profile", id: "7", query: URLSearchParams}. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, id = ""] = path.split("/");
  return { page, id: decodeURIComponent(id), query: new URLSearchParams(query), path };
}

/** Note something in the address without showing another page. */
function remember(query) {
  const text = query.toString();
  history.replaceState(null, "", `#/${address().path}${text ? `?${text}` : ""}`);
}

function steps(current, links = {}) {
  put(
    document.getElementById("steps"),
    STEPS.map((name, place) =>
      h(
        "li",
        {
          "aria-current": place === current ? "step" : null,
          class: place < current ? "past" : null,
        },
        links[place] && place !== current
          ? h("a", { href: links[place] }, name)
          : h("span", null, name),
      ),
    ),
  );
}

/** Show what a promise leaves open; without a promise, what every promise leaves open. */
function limits(whose, sentences) {
  document.getElementById("limits-whose").textContent = whose;
  document.getElementById("limits-count").textContent = sentences.length
    ? ` (${sentences.length})`
    : "";
  put(
    document.getElementById("limits-list"),
    sentences.map((sentence) => h("li", null, sentence)),
  );
}

async function usualLimits() {
  const { promises } = await serverState();
  const [first, ...others] = promises;
  const shared = (first?.does_not_protect ?? []).filter((sentence) =>
    others.every((promise) => promise.does_not_protect.includes(sentence)),
  );
  const always = [
    "conclusions that hold for everybody alike (smoking and cancer): they are what a release is for",
    "several releases of the same people with fresh draws: together they tell more than one",
    "quasi-identifiers: they are what others may know of a person, and most ways of publishing keep them as they are",
  ];
  limits(
    "Whatever you promise. Each promise has limits of its own, which will stand here.",
    shared.length ? shared : always,
  );
}

async function show() {
  const place = address();
  visit += 1;
  const mine = visit;
  leave?.();
  leave = null;
  const moved = shown !== null;
  shown = place.path;
  for (const link of document.querySelectorAll("[data-page]")) {
    const here = link.dataset.page === (place.page === "jobs" ? "jobs" : "new");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const view = h("div", { class: "view" });
  const page = {
    ...place,
    view,
    remember,
    steps,
    limits,
    usualLimits,
    current: () => mine === visit,
    title: (text) => {
      document.title = `${text} · sfumato`;
    },
  };
  let done;
  try {
    const { version, release } = await serverState();
    document.getElementById("version").textContent = version;
    const named = place.page === "" && release ? "explore" : place.page;
    done = await (PAGES[named] ?? showNowhere)(page);
  } catch (error) {
    steps(-1);
    put(
      view,
      h("h1", { tabindex: "-1" }, "This cannot be shown"),
      problem(error),
      h(
        "p",
        null,
        h("a", { href: "#/" }, "Choose a table"),
        " or look at ",
        h("a", { href: "#/jobs" }, "earlier jobs"),
        ".",
      ),
    );
    page.title("Not shown");
  }
  if (mine !== visit) {
    done?.();
    return;
  }
  leave = done ?? null;
  put(main, view);
  if (moved) {
    window.scrollTo(0, 0);
    view.querySelector("h1")?.focus({ preventScroll: true });
    announce(document.title);
  }
}

function showNowhere({ view, steps: mark, title }) {
  mark(-1);
  title("Nothing here");
  put(
    view,
    h("h1", { tabindex: "-1" }, "There is nothing here"),
    h("p", null, h("a", { href: "#/" }, "Choose a table")),
  );
}

/** How many jobs run, in the navigation. */
async function countRunning() {
  try {
    const jobs = await get("/api/jobs");
    const running = jobs.filter((job) => !finished(job)).length;
    const badge = document.getElementById("running");
    badge.hidden = running === 0;
    put(badge, running, h("span", { class: "hidden" }, " running"));
  } catch {
    // the page itself says when the server is away
  }
}

// where there is room the limits are always open; where there is not, they wait at the lower edge
const narrow = matchMedia("(max-width: 60rem)");
function foldLimits() {
  const limits = document.getElementById("limits");
  limits.open = !narrow.matches;
  limits.querySelector("summary").tabIndex = narrow.matches ? 0 : -1;
}

narrow.addEventListener("change", foldLimits);
window.addEventListener("beforeprint", () => {
  document.getElementById("limits").open = true;
});
window.addEventListener("afterprint", foldLimits);
foldLimits();
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) {
    begin();
    return;
  }
  show();
  countRunning();
});
document.addEventListener("visibilitychange", () => document.hidden || countRunning());
window.addEventListener("sfumato-jobs", countRunning);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address belongs to the pages
  main.focus();
});
document.getElementById("sign-out").addEventListener("click", async () => {
  try {
    await signOut();
  } finally {
    leave?.();
    put(main, h("h1", { tabindex: "-1" }, "Signed out"), h("p", null, "This tab can be closed."));
    main.querySelector("h1").focus();
  }
});
document.getElementById("new-link").addEventListener("click", async () => {
  const box = document.getElementById("link");
  try {
    put(box, "Good once, in another tab: ", h("code", null, await newLink()));
  } catch (error) {
    put(box, problem(error));
  }
});

async function begin() {
  try {
    await signIn();
  } catch (error) {
    put(main, h("h1", { tabindex: "-1" }, "This cannot be shown"), problem(error));
    return;
  }
  show();
  countRunning();
}
begin();
