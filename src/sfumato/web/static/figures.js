// Figures around charts: keys to marks, tables folded away, small histograms drawn by hand.

import { freshId, h, s, table } from "./dom.js";
import { count, plural, valueText } from "./format.js";

/** A key to marks: pairs of a class and a text. */
export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map(([mark, text]) =>
      h("li", null, h("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text),
    ),
  );
}

/** A table folded away under a chart, made when it is opened: hundreds of columns have one each. */
export function folded(summary, caption, columns, rows) {
  const make = () => {
    if (box.childElementCount === 1)
      box.append(table(caption, columns, rows, { hideCaption: true }));
  };
  const box = h("details", { class: "figures", ontoggle: make }, h("summary", null, summary));
  return box;
}

/** Fold a new table into the place of the last one; open stays open, and scrolled where it was. */
export function refold(box, ...figures) {
  const last = box.querySelector("details");
  const scrolled = last?.querySelector(".scroller")?.scrollTop ?? 0;
  const next = folded(...figures);
  box.replaceChildren(next);
  if (!last?.open) return;
  next.open = true;
  next.append(table(...figures.slice(1), { hideCaption: true }));
  next.querySelector(".scroller").scrollTop = scrolled;
}

/** A column's histogram as a small picture, with its table. */
export function histogram(column) {
  const found = column.histogram;
  if (found.bars.length === 0) {
    const why = found.others
      ? "No histogram: nearly every row has a value of its own."
      : "No values.";
    return h("p", { class: "quiet" }, why);
  }
  const most = Math.max(...found.bars.map((bar) => bar.count), 1);
  const [width, height] = [240, 44];
  const step = width / found.bars.length;
  const gap = Math.min(2, step / 4);
  const id = freshId("histogram");
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      class: "histogram",
      role: "img",
      "aria-labelledby": id,
      preserveAspectRatio: "none",
    },
    s(
      "title",
      { id },
      `Histogram of ${column.name}: ${plural(found.bars.length, found.kind === "bins" ? "bin" : "value")}`,
    ),
    found.bars.map((bar, place) => {
      const tall = bar.count ? Math.max(1, (bar.count / most) * height) : 0;
      return s("rect", {
        x: place * step,
        y: height - tall,
        width: Math.max(step - gap, 0.5),
        height: tall,
      });
    }),
  );
  const rows = found.bars.map((bar) => [valueText(bar.label), count(bar.count)]);
  if (found.others)
    rows.push([found.kind === "bins" ? "outside" : "all other values", count(found.others)]);
  return h(
    "div",
    { class: "histogram-box" },
    picture,
    folded(
      "Counts",
      `Counts of ${column.name}`,
      [{ title: found.kind === "bins" ? "from … to" : "value" }, { title: "rows", number: true }],
      rows,
    ),
  );
}
