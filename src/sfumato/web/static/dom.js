// Elements from plain values. Text only ever enters as text nodes: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "open" || name === "disabled") {
      element[name] = value;
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An HTML element: h("p", {class: "quiet"}, "text", otherElement). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Put these children, and nothing else, into the element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let numbers = 0;

/** An id that no other element has. */
export function freshId(stem) {
  numbers += 1;
  return `${stem}-${numbers}`;
}

/** A link to what needs a ticket: asked for when it is followed. */
export function ticketLink(ticket, path, attributes, text) {
  const follow = async (event) => {
    event.preventDefault();
    const address = await ticket(path);
    if (attributes.target === "_blank") window.open(address, "_blank", "noopener");
    else location.assign(address);
  };
  return h("a", { ...attributes, href: path, onclick: follow }, text);
}

/** Say something to screen readers without moving the focus. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live.textContent === text) live.textContent = "";
  live.textContent = text;
}

/** A notice that stands where the problem is. `kind`: "bad", "good" or "note". */
export function notice(kind, title, ...children) {
  const role = kind === "bad" ? "alert" : null;
  return h(
    "div",
    { class: `notice ${kind}`, role },
    h("p", { class: "notice-title" }, title),
    children,
  );
}

/** An error in one sentence, as the server says it; what stands out of sight comes into it. */
export function problem(error) {
  const shown = notice("bad", error.message);
  requestAnimationFrame(() => shown.scrollIntoView({ block: "nearest" }));
  return shown;
}

/** A button that asks once more before it does what cannot be undone. */
export function sureButton({ text, label, title, sentence, sure = "Remove" }, act) {
  const trouble = h("div");
  const keep = h("button", { type: "button", onclick: () => dialog.close() }, "Keep");
  const heading = freshId("sure");
  const dialog = h(
    "dialog",
    { "aria-labelledby": heading },
    h("h2", { id: heading }, title),
    h("p", null, sentence),
    trouble,
    h(
      "p",
      { class: "actions" },
      h("button", { type: "button", class: "danger", onclick: go }, sure),
      keep,
    ),
  );

  function ask() {
    dialog.showModal();
    keep.focus(); // what is gone is gone: the safe answer is the near one
  }

  async function go() {
    try {
      await act();
      dialog.close();
    } catch (error) {
      put(trouble, problem(error));
    }
  }
  return h(
    "span",
    { class: "sure" },
    h("button", { type: "button", class: "link", "aria-label": label, onclick: ask }, text),
    dialog,
  );
}

/** A command with a button that copies it. */
export function copyable(text) {
  const button = h(
    "button",
    {
      type: "button",
      class: "link",
      "aria-label": `Copy: ${text}`,
      onclick: async () => {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
        announce("Copied");
      },
    },
    "Copy",
  );
  return h("div", { class: "command" }, h("pre", { tabindex: "0" }, h("code", null, text)), button);
}

/** A table: `columns` are {title, number?}, `rows` are arrays of texts or elements. */
export function table(caption, columns, rows, { hideCaption = false } = {}) {
  return h(
    "div",
    { class: "scroller", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: hideCaption ? "hidden" : null }, caption),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.title)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            null,
            row.map((cell, place) => {
              const class_ = columns[place].number ? "number" : null;
              return place === 0
                ? h("th", { scope: "row", class: class_ }, cell)
                : h("td", { class: class_ }, cell);
            }),
          ),
        ),
      ),
    ),
  );
}
