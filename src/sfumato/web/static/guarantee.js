// The text form of a promise, name(parameter=value, …), read and written.

/** "rho-privacy(1/13, rho2=1/6)" → {name, given: {rho1: "1/13", rho2: "1/6"}}; null where unreadable. */
export function readPromise(text, promises) {
  const match = /^\s*([a-z][a-z0-9-]*)\s*(?:\(([\s\S]*)\))?\s*$/.exec(text ?? "");
  if (!match) return null;
  const promise = promises.find((one) => one.name === match[1]);
  if (!promise) return null;
  const names = promise.parameters.map((parameter) => parameter.name);
  const given = {};
  let place = 0;
  for (const part of (match[2] ?? "").split(",")) {
    if (!part.trim()) continue;
    const keyword = /^\s*([a-z_][a-z0-9_]*)\s*=(?!=)([\s\S]*)$/.exec(part);
    if (keyword) given[keyword[1]] = keyword[2].trim();
    else if (place < names.length) given[names[place++]] = part.trim();
    else return null;
  }
  return { promise, given };
}

const ABOUT = /^\s*('(?:[^']|'')*'|[^\s:'(]+)\s*:\s*(?=[a-z])/;

/** "ill: l-diversity(3) and job: beta-likeness(2)" → [{column, text}, …]; null where a promise is for
 * all columns. */
export function readByColumn(text) {
  const parts = (text ?? "").split(/ and (?=\s*(?:'(?:[^']|'')*'|[^\s:'(]+)\s*:\s*[a-z])/);
  const read = parts.map((part) => {
    const match = ABOUT.exec(part);
    return match && { column: match[1], text: part.slice(match[0].length).trim() };
  });
  return read.every(Boolean) ? read : null;
}

export function writeByColumn(parts) {
  return parts.map((one) => `${one.column}: ${one.text}`).join(" and ");
}

/** The text form; what is empty or stands at its default is left out. */
export function writePromise(promise, values) {
  const parts = [];
  for (const parameter of promise.parameters) {
    const value = String(values[parameter.name] ?? "").trim();
    if (value === "") continue;
    parts.push(`${parameter.name}=${value}`);
  }
  return parts.length ? `${promise.name}(${parts.join(", ")})` : promise.name;
}

/** "1/13" or "0.3" as a number; NaN where it is neither. */
export function numberOf(text) {
  const match = /^\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*(?:\/\s*([\d.]+))?\s*$/i.exec(
    String(text ?? ""),
  );
  if (!match) return NaN;
  return Number(match[1]) / (match[2] === undefined ? 1 : Number(match[2]));
}

/** What the fields hold at first: the promise's example, and defaults beside it. */
export function startingValues(promise, promises, text) {
  const read = readPromise(text ?? promise.example, promises);
  const given = read?.promise === promise ? read.given : {};
  return Object.fromEntries(
    promise.parameters.map((parameter) => [
      parameter.name,
      given[parameter.name] ?? parameter.default ?? "",
    ]),
  );
}

/** A slider's scale: position 0…steps to value and back; logarithmic where the range is wide. */
export function scaleOf(parameter) {
  const least = numberOf(parameter.least ?? 0);
  const most = numberOf(parameter.most ?? 1);
  const integer = parameter.kind === "integer";
  if (parameter.kind === "fraction" && most >= 1) return chanceScale(least);
  const wide = least > 0 && most / least >= 50;
  const steps = integer && !wide ? Math.max(1, Math.round(most - least)) : 200;
  const value = (position) => {
    const share = position / steps;
    const exact = wide ? least * (most / least) ** share : least + share * (most - least);
    if (integer) return String(Math.round(exact));
    // as fine as a hand on a slider
    return String(Number(exact.toPrecision(wide ? 2 : 3)));
  };
  const position = (number) => {
    const inside = Math.min(most, Math.max(least, number));
    const share = wide
      ? Math.log(inside / least) / Math.log(most / least)
      : (inside - least) / (most - least);
    return Math.round(share * steps);
  };
  return { steps, value, position };
}

/** Chances between 0 and 1, both excluded: even in log odds, so that 0.001 and 0.999 can be hit. */
function chanceScale(least) {
  const steps = 200;
  const odds = (chance) => Math.log(chance / (1 - chance));
  const first = Math.min(0.9, Math.max(0.001, least));
  const [low, high] = [odds(first), odds(0.999)];
  const value = (position) => {
    const now = Math.exp(low + ((high - low) * position) / steps);
    return String(Number((now / (1 + now)).toPrecision(now > 9 ? 3 : 2)));
  };
  const position = (number) => {
    const inside = Math.min(0.999, Math.max(first, number));
    return Math.round(((odds(inside) - low) / (high - low)) * steps);
  };
  return { steps, value, position };
}
