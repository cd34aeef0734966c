// What the command line can do with this table and this promise, each command ready to be copied.

import { get, segment } from "./api.js";
import { copyable, h, problem, put } from "./dom.js";

/** A folded list of commands; `current()` is the promise in hand. Made when it is opened. */
export function commandList(profile, current) {
  const list = h("dl", { class: "commands" });
  let asked = 0;

  async function draw() {
    if (!box.open) return;
    asked += 1;
    const mine = asked;
    const { guarantee, mechanism } = current();
    const query = new URLSearchParams({ guarantee, mechanism });
    try {
      const found = await get(`/api/profiles/${segment(profile.profile)}/commands?${query}`);
      if (mine !== asked) return;
      put(
        list,
        found.map((one) => h("div", null, h("dt", null, one.what), h("dd", null, copyable(one.command)))),
      );
    } catch (error) {
      put(list, problem(error));
    }
  }

  const box = h(
    "details",
    { ontoggle: draw },
    h("summary", null, "By the command line, and what only it can do"),
    h(
      "p",
      { class: "quiet" },
      "These commands follow what you chose above. Write the table's place instead of its name where they are run elsewhere.",
    ),
    list,
  );
  return { element: h("section", { "aria-label": "Commands" }, box), changed: draw };
}
