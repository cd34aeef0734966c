// Draws every chart from the JSON beside it, with an interpreter instead of eval; fetches nothing.
(function () {
  "use strict";
  var refuse = { load: function () { return Promise.reject(new Error("pages fetch nothing")); },
                 sanitize: function () { return Promise.reject(new Error("pages link nowhere")); } };
  var options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, loader: refuse,
                  defaultStyle: false, tooltip: true };
  // colours are the style sheet's, so that charts follow light, dark and print
  var axis = { labelColor: "var(--ink)", titleColor: "var(--soft)", gridColor: "var(--line)",
               domainColor: "var(--soft)", tickColor: "var(--soft)" };
  var legend = { labelColor: "var(--ink)", titleColor: "var(--soft)" };
  function read(text) {
    var spec = JSON.parse(text.replaceAll('"#000000"', '"var(--ink)"').replaceAll('"#5a6675"', '"var(--soft)"'));
    spec.config = spec.config || {};
    spec.config.axis = Object.assign({}, spec.config.axis, axis);
    spec.config.legend = Object.assign({}, spec.config.legend, legend);
    return spec;
  }
  document.querySelectorAll("script[data-chart]").forEach(function (source) {
    var place = document.getElementById(source.dataset.chart);
    vegaEmbed(place, read(source.textContent), options).then(function () {
      place.dataset.drawn = "yes";
    }, function (error) {
      place.dataset.drawn = "no";
      place.textContent = "This chart could not be drawn (" + error.message + "). Its figures stand below.";
      console.error(error);
    });
  });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (part) { part.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (part) { part.open = false; });
  });
})();
