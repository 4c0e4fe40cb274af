// Numbers, sizes, durations and times as people read them.

import type { MeasuredOn } from "../api/types";
import type { Zone } from "../zone";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const zoneNames = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

/** What stands where a figure is unknown. */
export const UNKNOWN = "–";

export function count(value: number | undefined): string {
  return value === undefined || !Number.isFinite(value) ? UNKNOWN : number.format(value);
}

/** `1 client`, `2 clients`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Short for large counts: `1.2 M`. */
export function compact(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  for (const [limit, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ] as const) {
    if (size >= limit) return `${trimmed(value / (limit === 1e4 ? 1e3 : limit))} ${unit}`;
  }
  return count(value);
}

/** Sizes with decimal units, as disks and networks count. */
export function bytes(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return UNKNOWN;
  let size = value;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (Math.abs(size) < 999.5) return `${unit === "B" ? size.toFixed(0) : trimmed(size)} ${unit}`;
    size /= 1000;
  }
  return `${trimmed(size)} PB`;
}

function trimmed(value: number): string {
  return Math.abs(value) >= 99.95 ? value.toFixed(0) : Math.abs(value) >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function percent(value: number | undefined, digits = 1): string {
  return value === undefined || !Number.isFinite(value) ? UNKNOWN : `${(value * 100).toFixed(digits)} %`;
}

/** Below this width an interval has decimals. */
const NARROW = 0.02;

/** On what an accuracy was measured and how sure it is: `19 examples, 83 to 100 %`. */
export function sureness(on: MeasuredOn | undefined): string | undefined {
  return on && `${plural(on.examples, "example")}, ${interval(on)}`;
}

/** The same for a column of a table: `n 19, 83 to 100 %`. */
export function briefly(on: MeasuredOn | undefined): string | undefined {
  return on && `n ${count(on.examples)}, ${interval(on)}`;
}

function interval(on: MeasuredOn): string {
  const [step, digits] = on.high - on.low < NARROW ? [0.1, 1] : [1, 0];
  // A hair's breadth keeps 83 % from becoming 82 %.
  const low = Math.floor((on.low * 100) / step + 1e-9) * step;
  const high = Math.ceil((on.high * 100) / step - 1e-9) * step;
  return `${low.toFixed(digits)} to ${high.toFixed(digits)} %`;
}

/** How the accuracies of the clients spread: `worst of 14 clients 52.0 %, a tenth at most 71.0 %`. */
export function spreadOf(on: MeasuredOn | undefined): string | undefined {
  if (on?.worst === undefined || on.p10 === undefined) return undefined;
  return `worst of ${plural(on.clients, "client")} ${percent(on.worst)}, a tenth at most ${percent(on.p10)}`;
}

/** Of how many examples and clients something is: `266 examples of 14 clients`. */
export function ofWhom(on: MeasuredOn | undefined): string | undefined {
  if (!on) return undefined;
  const whose = on.clients === 0 ? "of the test set" : `of ${plural(on.clients, "client")}`;
  return `${plural(on.examples, "example")} ${whose}`;
}

/** Who is here: `9 waiting, 5 working`; empty while nobody is. */
export function presence(online: number, working: number): string {
  const parts = [
    online > working ? `${count(online - working)} waiting` : "",
    working > 0 ? `${count(working)} working` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** Three or so significant digits, without exponents where they can be avoided. */
export function real(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  if (size >= 1000) return number.format(value);
  return size >= 0.1
    ? value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3)
    : value.toFixed(2 - Math.floor(Math.log10(size)));
}

/** Three significant digits and no more: `0.4`, `12.4`, `1,230`. */
export function short(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return UNKNOWN;
  return Math.abs(value) >= 1000 ? number.format(value) : String(Number(value.toPrecision(3)));
}

/** Numbers of an axis, all with the decimals that their step needs. */
export function axisReals(values: readonly number[]): string[] {
  const step = values.length > 1 ? Math.abs(values[1]! - values[0]!) : Math.abs(values[0] ?? 1) || 1;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  if (decimals > 5) return values.map((value) => value.toExponential(1));
  return values.map((value) =>
    value === 0 ? "0" : Math.abs(value) >= 10_000 ? compact(value) : value.toFixed(decimals),
  );
}

/** `840 ms`, `8.4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(ms: number | undefined): string {
  if (ms === undefined || !Number.isFinite(ms)) return UNKNOWN;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return (
    parts(seconds, 60, 60, "min", "s") ?? parts(seconds, 3600, 24, "h", "min") ?? parts(seconds, 86_400, 1e9, "d", "h")!
  );
}

function parts(seconds: number, unit: number, most: number, large: string, small: string): string | undefined {
  const below = unit === 60 ? 1 : unit === 3600 ? 60 : 3600;
  const rounded = Math.round(seconds / below) * below;
  const whole = Math.floor(rounded / unit);
  if (whole >= most) return undefined;
  const rest = (rounded - whole * unit) / below;
  return rest > 0 ? `${whole} ${large} ${rest} ${small}` : `${whole} ${large}`;
}

/** `4:07`, `1:02:33`: for countdowns, whose width must not jump. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** `just now`, `12 s ago`, `3 min ago`, `in 2 h`. One unit: it is a glance, the exact time is on hover. */
export function relative(atMs: number, nowMs: number): string {
  const ms = nowMs - atMs;
  const size = Math.abs(ms);
  if (size < 5_000) return ms >= 0 ? "just now" : "now";
  const [amount, unit] =
    size < 60_000
      ? [size / 1000, "s"]
      : size < 3_600_000
        ? [size / 60_000, "min"]
        : size < 48 * 3_600_000
          ? [size / 3_600_000, "h"]
          : [size / 86_400_000, "d"];
  const text = `${Math.floor(amount)} ${unit}`;
  return ms >= 0 ? `${text} ago` : `in ${text}`;
}

/** The date and time of day in ISO 8601: `2026-11-20 21:54:11`. */
export function dateTime(atMs: number, zone: Zone): string {
  const date = shifted(atMs, zone);
  return date ? date.toISOString().slice(0, 19).replace("T", " ") : UNKNOWN;
}

/** The zone at a time, such as `UTC`, `CET` or `GMT+5:30`. */
export function zoneName(atMs: number, zone: Zone): string {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return "";
  if (zone === "utc") return "UTC";
  return zoneNames.formatToParts(date).find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** Date, time of day and zone: `2026-11-20 21:54:11 CET`. */
export function absoluteTime(atMs: number, zone: Zone): string {
  return `${dateTime(atMs, zone)} ${zoneName(atMs, zone)}`.trim();
}

/** Time of day and zone: `21:54:11 CET`. */
export function timeOfDay(atMs: number, zone: Zone): string {
  return `${dateTime(atMs, zone).slice(11)} ${zoneName(atMs, zone)}`.trim();
}

/** The date whose UTC fields are those of the time in a zone; undefined for what is no time. */
function shifted(atMs: number, zone: Zone): Date | undefined {
  const date = new Date(atMs);
  if (zone === "local") date.setTime(atMs - date.getTimezoneOffset() * 60_000);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

/** A time in milliseconds as an HTML `datetime`; empty when it is none. */
export function isoTime(atMs: number): string {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** The recognisable beginning of an id: `job_3f9a2c…`. */
export function shortId(id: string): string {
  const [kind, digits] = id.split("_");
  return digits && digits.length > 8 ? `${kind}_${digits.slice(0, 6)}…` : id;
}

/** Milliseconds in a text such as `90 s`, `10 min`, `1.5h`, `250 ms`, `1 h 30 min`; a plain number is milliseconds. */
export function parseDuration(text: string): number | undefined {
  const units: Record<string, number> = {
    ms: 1,
    s: 1000,
    sec: 1000,
    min: 60_000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
  };
  const clean = text.trim().toLowerCase();
  if (/^\d+$/.test(clean)) return Number(clean);
  if (!/^(\d+(\.\d+)?\s*[a-z]+\s*)+$/.test(clean)) return undefined;
  let total = 0;
  for (const [, amount, unit] of clean.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    const size = units[unit!];
    if (size === undefined) return undefined;
    total += Number(amount) * size;
  }
  return Math.round(total);
}

/** A name of the API as words: `too_few_reports` as `too few reports`, `job.paused` as `job paused`. */
export function words(name: string): string {
  return /\s/.test(name) ? name : name.replaceAll(/[._]/g, " ");
}
