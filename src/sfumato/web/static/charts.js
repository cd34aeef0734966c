// Charts: small histograms drawn by hand, the others by vega without generated code. Each chart has
// the same figures beside it as a table.

import { h, put } from "./dom.js";

const VENDOR = ["/vendor/vega.min.js", "/vendor/vega-lite.min.js", "/vendor/vega-embed.min.js"];
let loaded = null;

/** The chart library, fetched from our own server when the first chart needs it. */
function library() {
  loaded ??= VENDOR.reduce(
    (before, source) =>
      before.then(
        () =>
          new Promise((resolve, reject) => {
            const script = h("script", { src: source });
            script.onload = resolve;
            script.onerror = () => reject(new Error(`${source} could not be loaded.`));
            document.head.append(script);
          }),
      ),
    Promise.resolve(),
  );
  return loaded;
}

// colours are the style sheet's, so that charts follow light, dark and print without being redrawn
const INK = "var(--ink)";
const QUIET = "var(--quiet)";
const LINE = "var(--line)";
const ACCENT = "var(--accent)";
const SOFT = "var(--bar)";

const CONFIG = {
  background: "transparent",
  font: "system-ui, sans-serif",
  view: { stroke: null },
  axis: {
    labelColor: QUIET,
    titleColor: QUIET,
    titleFontWeight: "normal",
    labelFontSize: 12,
    titleFontSize: 12,
    domainColor: LINE,
    tickColor: LINE,
    gridColor: LINE,
    gridOpacity: 0.7,
    labelLimit: 150,
  },
};

const tip = h("div", { class: "tip", role: "presentation", hidden: true });

/** What a mark shows, beside the pointer; text only, as everything here. */
function showTip(handler, event, item, value) {
  const told = value && typeof value === "object" ? Object.entries(value) : [];
  tip.hidden = told.length === 0;
  if (tip.hidden) return;
  if (!tip.isConnected) document.body.append(tip);
  put(
    tip,
    h(
      "dl",
      null,
      told.map(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
    ),
  );
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, room))}px`;
  tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
}

/** A chart that can be given new rows: {element, update(rows)}. With `step` it grows with them. */
function chart(label, { step = null, ...spec }) {
  const place = h("div", { class: "chart", role: "img", "aria-label": label });
  let view = null;
  let waiting = null;
  let starting = false;
  const height = (rows) => (step ? Math.max(1, rows.length) * step : spec.height);

  async function draw(rows) {
    waiting = rows;
    if (view) {
      view.data("rows", rows).height(height(rows)).resize();
      await view.runAsync();
    } else if (!starting) {
      starting = true;
      await library();
      // the element must be in the page before vega can ask how wide it is
      await new Promise(requestAnimationFrame);
      const drawn = await window.vegaEmbed(
        place,
        {
          ...spec,
          height: height(waiting),
          data: { name: "rows", values: waiting },
          width: "container",
          config: CONFIG,
        },
        {
          ast: true,
          actions: false,
          renderer: "svg",
          defaultStyle: false,
          tooltip: showTip,
          hover: false,
        },
      );
      view = drawn.view;
      place.addEventListener("pointerleave", () => {
        tip.hidden = true;
      });
      // a chart that was folded away, or whose page was turned, is as wide as its place again
      new ResizeObserver(() => {
        const wide = place.clientWidth;
        if (wide > 0 && wide !== view.width()) view.width(wide).resize().runAsync();
      }).observe(place);
      // the chart is one picture with one label; its figures stand in the table beside it
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      if (waiting !== rows) await draw(waiting);
    }
  }

  function update(rows) {
    draw(rows).catch(() =>
      put(
        place,
        h("p", { class: "quiet" }, "The chart could not be drawn. The table has its figures."),
      ),
    );
  }

  return { element: place, update };
}

const told = (field, title, format) => ({ field, title, type: format ? "quantitative" : "nominal", format });
const labels = (title = null) => ({
  field: "label",
  type: "nominal",
  sort: null,
  title,
  axis: { labelLimit: 150, ticks: false, domain: false, labelPadding: 8 },
});
const shares = (field, title) => ({
  field,
  type: "quantitative",
  title,
  axis: { format: ".0%", tickCount: 5 },
});

/** The share of each value and the ceiling that the promise sets for it. */
export function ceilingChart() {
  return chart(
    "Bars: the share of each sensitive value in the table; marks: the largest chance that the promise lets anybody reach. The table after the chart has the figures.",
    {
      step: 19,
      encoding: {
        y: labels("sensitive value"),
        tooltip: [
          told("label", "value"),
          told("share", "share in the table", ".2%"),
          told("ceiling", "ceiling", ".2%"),
        ],
      },
      layer: [
        {
          mark: { type: "bar", height: 9, cornerRadiusEnd: 3, color: SOFT },
          encoding: { x: { ...shares("share", "chance for one person"), stack: null } },
        },
        {
          transform: [{ filter: "datum.ceiling < 1" }],
          mark: { type: "tick", thickness: 3, size: 15, color: ACCENT, opacity: 1 },
          encoding: { x: shares("ceiling", "chance for one person") },
        },
      ],
    },
  );
}

/** The predicted error by size of count. */
export function errorChart() {
  return chart(
    "A line: the predicted relative error of a count, by the size of the count. The table after the chart has the figures.",
    {
      height: 220,
      encoding: {
        x: {
          field: "count",
          type: "quantitative",
          scale: { type: "log" },
          title: "size of the count",
          axis: { format: "~s", tickCount: 5, grid: false },
        },
        y: {
          field: "shown",
          type: "quantitative",
          title: "predicted error",
          axis: { format: ".0%", tickCount: 5 },
        },
      },
      layer: [
        { mark: { type: "line", color: ACCENT, strokeWidth: 2.5, interpolate: "monotone" } },
        {
          mark: { type: "point", color: ACCENT, filled: true, size: 34 },
          encoding: {
            tooltip: [
              told("count", "a count of", ",.0f"),
              told("shown", "is wrong by about", ".1%"),
            ],
          },
        },
      ],
    },
  );
}

/** Estimates with their intervals; the axes say what is estimated, and of whom. */
export function estimateChart(what = "estimate", of = null) {
  return chart("Points: the estimates; lines: their intervals. The table has the figures.", {
    step: 21,
    encoding: {
      y: labels(of),
      tooltip: [
        told("label", of || "of"),
        told("value", what, ",.4~g"),
        told("low", "from", ",.4~g"),
        told("high", "to", ",.4~g"),
      ],
    },
    layer: [
      {
        mark: { type: "rule", color: ACCENT, opacity: 0.55, strokeWidth: 5, strokeCap: "round" },
        encoding: { x: { field: "low", type: "quantitative", title: what }, x2: { field: "high" } },
      },
      {
        mark: { type: "point", color: INK, filled: true, size: 46, opacity: 1 },
        encoding: {
          x: { field: "value", type: "quantitative", title: what, scale: { zero: true } },
        },
      },
    ],
  });
}
