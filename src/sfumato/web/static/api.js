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

async function call(method, path, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Sfumato"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "same-origin",
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

/** Follow a job until it has finished; returns a function that stops following. `onAway` is called
 * while the server does not answer. */
export function watch(id, onJob, onAway) {
  let events = null;
  let timer = null;
  let stopped = false;
  const stop = () => {
    stopped = true;
    events?.close();
    clearTimeout(timer);
  };
  const take = (job) => {
    if (stopped) return;
    if (finished(job)) stop();
    onJob(job);
  };
  const poll = async () => {
    try {
      take(await get(`/api/jobs/${segment(id)}`));
    } catch (error) {
      if (error.status === 404) stop();
    }
    if (!stopped) timer = setTimeout(poll, 1500);
  };
  events = new EventSource(`/api/jobs/${segment(id)}/events`);
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => {
    if (stopped) return;
    onAway();
    // a server that restarts is tried again by the browser; one that refuses is asked now and then
    if (events.readyState === EventSource.CLOSED) poll();
  };
  return stop;
}
