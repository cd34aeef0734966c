// "Forget this table": its upload and every count of it go at once; releases stay.

import { remove } from "./api.js";
import { announce, sureButton } from "./dom.js";

export function forgetButton(place, label, after) {
  return sureButton(
    {
      text: "Forget this table",
      label: `Forget this table: ${label}`,
      title: `Forget ${label}?`,
      sentence:
        "The copy on this server, what was counted of it and what you said of its columns are deleted at once; what still works with it is cancelled. Releases stay, and so does your own file.",
      sure: "Forget",
    },
    async () => {
      await remove(place);
      announce(`${label} is forgotten`);
      await after();
    },
  );
}
