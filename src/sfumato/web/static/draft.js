// What the steward has said of the columns so far. The server keeps it, so that a reload and another
// tab go on with it; this tab keeps it too, for the moment until the server has it.

import { post, segment } from "./api.js";

const REST = 400; // milliseconds without a change after which the server is told
const PARTS = ["roles", "bins", "recode", "domain", "categorical"];

function nameOf(id) {
  return `sfumato-roles-${id}`;
}

/** The draft of a table: {draft, keep(), forget(), flush()}. */
export function draftOf(id, found) {
  const draft = read(id, found);
  let waiting = null;

  async function flush() {
    if (waiting === null) return;
    clearTimeout(waiting);
    waiting = null;
    try {
      await post(`/api/tables/${segment(id)}/draft`, { draft });
    } catch {
      // this tab has it still; the next change tries again
    }
  }

  function keep() {
    draft.at = Date.now();
    sessionStorage.setItem(nameOf(id), JSON.stringify(draft));
    clearTimeout(waiting);
    waiting = setTimeout(flush, REST);
  }

  function forget() {
    clearTimeout(waiting);
    waiting = null;
    sessionStorage.removeItem(nameOf(id));
  }

  return { draft, keep, flush, forget };
}

function read(id, found) {
  let own = null;
  try {
    own = JSON.parse(sessionStorage.getItem(nameOf(id)));
  } catch {
    // an unreadable draft is none
  }
  const kept = found.draft ?? null;
  const newest = (own?.at ?? 0) >= (kept?.at ?? 0) ? (own ?? kept) : kept;
  const draft = newest ?? { missing: "refuse" };
  draft.missing ??= "refuse";
  // a Map in all but name: a column may be called "__proto__"
  for (const part of PARTS) {
    const known = Object.create(null);
    for (const column of found.columns) {
      if (Object.hasOwn(draft[part] ?? {}, column.name))
        known[column.name] = draft[part][column.name];
    }
    draft[part] = known;
  }
  return draft;
}

/** What the server is asked for, from a draft in which every column has a role. */
export function request(draft) {
  const filled = (texts) =>
    Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim()));
  const asked = { roles: draft.roles, missing: draft.missing };
  if (draft.quasi_k) asked.quasi_k = draft.quasi_k;
  const published = (texts) =>
    Object.entries(filled(texts)).filter(([name]) =>
      ["quasi", "sensitive"].includes(draft.roles[name]),
    );
  const [bins, recode, domain] = [draft.bins, draft.recode, draft.domain].map(published);
  const categorical = Object.keys(draft.categorical).filter((name) => draft.categorical[name]);
  if (bins.length) asked.bins = Object.fromEntries(bins);
  if (recode.length) asked.recode = Object.fromEntries(recode);
  if (domain.length) asked.domain = Object.fromEntries(domain);
  if (categorical.length) asked.categorical = categorical;
  return asked;
}
