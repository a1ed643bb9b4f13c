// Figures in a readable form. Pure.

const WHOLE = new Intl.NumberFormat("en"); // made once: `toLocaleString` makes one for each of thousands of figures

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(size)} B` : `${significant(size)} ${UNITS[unit]}`;
}

const MANY = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e4, "k"],
] as const;

/** Exact up to 9,999, then in three digits. */
export function count(value: number): string {
  for (const [size, suffix] of MANY) {
    if (Math.abs(value) >= size) return `${significant(value / (suffix === "k" ? 1e3 : size))} ${suffix}`;
  }
  return Number.isInteger(value) ? WHOLE.format(value) : significant(value);
}

function significant(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size === 0 ? 0 : 2);
}

export function rate(perSecond: number | null): string {
  return perSecond === null ? "–" : `${count(perSecond < 10 ? Number(perSecond.toFixed(1)) : Math.round(perSecond))}/s`;
}

export function percent(ratio: number | null): string {
  return ratio === null ? "–" : `${Math.round(ratio * 100)} %`;
}

/** Of milliseconds, in its two largest units. */
export function duration(ms: number): string {
  if (ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${significant(seconds)} s`;
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return `${minutes} min ${whole % 60} s`;
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };

/** Of milliseconds since the epoch: the time today, else with its date. */
export function time(ms: number, now: number = Date.now()): string {
  if (ms <= 0) return "–";
  const at = new Date(ms);
  const clock = at.toLocaleTimeString("en-GB", CLOCK);
  return at.toDateString() === new Date(now).toDateString() ? clock : `${isoDay(at)} ${clock}`;
}

function isoDay(at: Date): string {
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`;
}

const LOWEST = -(2 ** 63);
const HIGHEST = 2 ** 63 - 1;

/** A watermark; those that mean "none yet" and "the end" in words. */
export function watermark(value: number | null): string {
  if (value === null || value <= LOWEST) return "none yet";
  if (value >= HIGHEST) return "end of input";
  return `${new Date(value).toISOString().replace("T", " ").replace(/\.000Z$|Z$/, "")} UTC`;
}

const YEAR_MS = 365 * 86_400_000;

/** How far event time is behind the clock. Where they differ by more than a year, the date of the event time. */
export function lag(mark: number, now: number): string {
  if (mark <= LOWEST) return "no watermark yet";
  if (mark >= HIGHEST) return "end of input";
  const behind = now - mark;
  if (Math.abs(behind) > YEAR_MS) return `event time ${new Date(mark).toISOString().slice(0, 10)}`;
  return behind < 0 ? `${duration(-behind)} ahead` : `lag ${behind < 10_000 ? `${Math.round(behind / 100) / 10} s` : duration(Math.round(behind / 1000) * 1000)}`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(number)} ${number === 1 ? one : many}`;
}

/** With a capital letter: messages of the cluster begin without one. */
export function sentence(words: string): string {
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

/** A state in words: the REST API has Flink's spelling, the pages that of the rest of their text. */
export function stateName(state: string): string {
  return state.toLowerCase().replaceAll("_", " ").replace(/^cancel(ed|ing)$/, "cancell$1");
}

/** The name of a vertex: the arrows between its chained operators are not broken at the end of a line. */
export function unbroken(name: string): string {
  return name.replaceAll("->", "-\u2060>");
}

export function shortId(id: string): string {
  return id.length > 12 ? id.slice(0, 8) : id;
}

/** Sorts names, numbers in them by their size. */
export function byName(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
