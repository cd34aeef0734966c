// Numbers, shares, sizes and times as a reader wants them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

export function count(number) {
  return whole.format(number);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function figure(number) {
  if (number === null || number === undefined) return "";
  if (typeof number !== "number") return String(number);
  return Number.isInteger(number) || Math.abs(number) >= 1000
    ? whole.format(number)
    : fine.format(number);
}

/** A share as a percentage: 0.0312 is "3.1 %". */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const value = 100 * share;
  const digits = Math.abs(value) >= 10 || value === 0 ? 0 : Math.abs(value) >= 1 ? 1 : 2;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−")} %`;
}

export function bytes(number) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let place = 0;
  while (number >= 1000 && place < units.length - 1) {
    number /= 1000;
    place += 1;
  }
  return place === 0
    ? plural(number, "byte")
    : `${number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 1 : 0 })} ${units[place]}`;
}

/** A length of time in words: 59 s, 3 min, 2.5 h. */
export function duration(seconds) {
  if (seconds < 100) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** How long a job has run and may still run, as far as it tells. */
export function timeText(job, now = Date.now()) {
  if (!job.began) return "";
  const run = `${duration(Math.max(0, (now - new Date(job.began)) / 1000))} so far`;
  return Number.isFinite(job.left) ? `${run}, about ${duration(job.left)} left` : run;
}

/** A time of the server (seconds, or an ISO text) in the reader's own words. */
export function moment(when) {
  const date = new Date(typeof when === "number" ? 1000 * when : when);
  if (Number.isNaN(date.getTime())) return "";
  return date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** A value of a column as text; a missing one says so. */
export function valueText(value) {
  return value === null || value === undefined ? "(missing)" : String(value);
}

const TYPES = [
  [/^u?int/, "whole numbers"],
  [/^(half|float|double|decimal)/, "numbers"],
  [/string|utf8|^dictionary/, "text"],
  [/^bool/, "true or false"],
  [/^date/, "dates"],
  [/^(timestamp|time)/, "times"],
];

/** An Arrow type in a reader's words; one that has none stays as it is. */
export function typeText(type) {
  return TYPES.find(([pattern]) => pattern.test(type))?.[1] ?? type;
}
