// How the page talks to its server, and to nothing else.

export class ApiError extends Error {
  constructor(message, status, details = {}) {
    super(message);
    this.status = status;
    this.witness = details.witness ?? null;
    this.nearest = details.nearest ?? null;
  }
}

const AWAY = "The server does not answer. Is “sfumato serve” still running?";
const OVER = "This page's session has ended. Open the address that “sfumato serve” printed.";

function failure(status, text) {
  let answer = {};
  try {
    answer = JSON.parse(text);
  } catch {
    // not JSON: the status has to say it
  }
  const message = answer.error ?? (status === 401 ? OVER : `The server refused this (${status}).`);
  return new ApiError(message, status, answer);
}

const KEPT = "sfumato-session"; // of this tab and this origin; no other port is sent it
let session = sessionStorage.getItem(KEPT);

/** Turn the token in the address into this tab's session. */
export async function signIn() {
  const [, token] = location.hash.match(/^#token=(.+)$/) ?? [];
  if (!token) return;
  history.replaceState(null, "", "#/");
  session = null;
  session = (await call("POST", "/api/session", { body: { token } })).session;
  sessionStorage.setItem(KEPT, session);
}

export async function signOut() {
  await call("DELETE", "/api/session");
  session = null;
  sessionStorage.clear();
}

/** An address that opens the page in another tab, once. */
export async function newLink() {
  const { token } = await call("POST", "/api/session/link");
  return `${location.origin}/#token=${token}`;
}

/** The address of what the browser has to fetch by itself, good once. */
export async function ticketed(path) {
  const { ticket } = await call("POST", "/api/tickets", { body: { path } });
  return `${path}?ticket=${segment(ticket)}`;
}

function own() {
  return session ? { "X-Sfumato-Session": session } : {};
}

async function call(method, path, { body, signal } = {}) {
  const headers = { Accept: "application/json", ...own() };
  if (method !== "GET") headers["X-Sfumato"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(AWAY, 0);
  }
  const text = await response.text();
  if (!response.ok) throw failure(response.status, text);
  return text ? JSON.parse(text) : {};
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { body, ...options });
export const remove = (path) => call("DELETE", path);
export const segment = encodeURIComponent;

let state = null;

/** What the server is and what it can promise; asked once. */
export async function serverState() {
  state ??= await get("/api/state");
  return state;
}

/** Send a file; `onProgress(share)` on the way. Returns {done: Promise, cancel()}. */
export function upload(file, onProgress) {
  // fetch does not tell how much has been sent
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.open("PUT", `/api/uploads?name=${segment(file.name)}`);
    request.setRequestHeader("X-Sfumato", "1");
    for (const [name, value] of Object.entries(own())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) =>
      event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () =>
      request.status < 300
        ? resolve(JSON.parse(request.responseText))
        : reject(failure(request.status, request.responseText));
    request.onerror = () =>
      reject(
        new ApiError(
          "The upload broke off. The file may be too large, or the server may have stopped.",
          0,
        ),
      );
    request.onabort = () => reject(new ApiError("The upload was stopped.", 0));
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}

export const finished = (job) => ["done", "failed", "cancelled"].includes(job.state);

/** Read what a stream of events tells, one after the other, until it ends. */
async function stream(path, signal, take) {
  const response = await fetch(path, { headers: own(), signal, credentials: "omit" });
  if (!response.ok) throw failure(response.status, await response.text());
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)));
  }
}

/** Follow a job until it has finished; returns a function that stops following. `onAway` is called
 * while the server does not answer. */
export function watch(id, onJob, onAway) {
  const control = new AbortController();
  let timer = null;
  let stopped = false;
  const stop = () => {
    stopped = true;
    control.abort();
    clearTimeout(timer);
  };
  const take = (job) => {
    if (stopped) return;
    if (finished(job)) stop();
    onJob(job);
  };
  const follow = async () => {
    try {
      await stream(`/api/jobs/${segment(id)}/events`, control.signal, take);
    } catch (error) {
      if (stopped) return;
      // removed, or another took its place: whoever follows it must not wait for ever
      if (error.status === 404) take({ id, state: "cancelled" });
      else onAway();
    }
    // a server that restarts, or a stream that broke off, is tried again
    if (!stopped) timer = setTimeout(follow, 1500);
  };
  follow();
  return stop;
}
