// What the page does as a command, ready to be copied.

import { get, segment } from "./api.js";
import { copyable, h, problem, put } from "./dom.js";

/** The command, folded; `current()` is the promise in hand. Made when it is opened. */
export function byCommand(profile, current) {
  const place = h("div");
  let asked = 0;

  async function draw() {
    if (!box.open) return;
    asked += 1;
    const mine = asked;
    const query = new URLSearchParams(current());
    try {
      const { command } = await get(`/api/profiles/${segment(profile.profile)}/command?${query}`);
      if (mine === asked) put(place, copyable(command));
    } catch (error) {
      put(place, problem(error));
    }
  }

  const box = h(
    "details",
    { ontoggle: draw },
    h("summary", null, "The same by the command line"),
    h("p", { class: "quiet" }, "Write the table's place instead of its name where it is run elsewhere."),
    place,
  );
  return { element: h("section", { "aria-label": "Command" }, box), changed: draw };
}
