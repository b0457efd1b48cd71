import { ConfigError } from "../errors.ts";

/** Hours of the day in which work is allowed, such as 22:00-06:00. */
export interface Hours {
  /** Minutes of the day; `to` is the first that is outside. */
  from: number;
  to: number;
  /** Such as `Europe/Berlin`; undefined is this machine's own zone. */
  zone?: string | undefined;
}

const minuteMs = 60_000;
const dayMinutes = 1_440;
/** No change of a clock is longer. */
const clockChangeMinutes = 180;
/** A change of the clock may leave nothing of one day's hours, but not of the next day's too. */
const maxSearchMinutes = 2 * dayMinutes;

/** When requests may be sent, and when a run may begin; null is at any time. */
export interface OpeningHours {
  requests: Hours | null;
  starts: Hours | null;
}

/** Throws ConfigError for a latest start outside of the allowed hours; without those it counts from midnight. */
export function openingHours(settings: {
  allowedHours?: string | null | undefined;
  latestStart?: string | null | undefined;
}): OpeningHours {
  const { allowedHours, latestStart } = settings;
  const requests = (allowedHours && parseHours(allowedHours)) || null;
  const latest = latestStart ? parseTime(latestStart) : undefined;
  if (latest === undefined) return { requests, starts: requests };
  const starts = startHours(requests ?? { from: 0, to: 0 }, latest);
  if (starts) return { requests, starts };
  throw new ConfigError(
    `expected latestStart to be within the allowed hours, got ${latestStart} with ${allowedHours ?? "none"}: name a time of them, or leave it out`,
  );
}

/** Undefined for what are no hours. */
export function parseHours(text: string): Hours | undefined {
  const [, fromText = "", toText = "", zone] = /^(\S+?)\s*-\s*(\S+)(?:\s+(\S+))?$/.exec(text.trim()) ?? [];
  const [from, to] = [parseTime(fromText), parseTime(toText)];
  if (from === undefined || to === undefined || from === to) return undefined;
  if (zone !== undefined && !isZone(zone)) return undefined;
  return { from, to, zone };
}

/** `05:00` as the minute of the day; undefined for what is no time. `24:00` is midnight. */
export function parseTime(text: string): number | undefined {
  const [, hour, minute] = /^(\d{1,2}):(\d\d)$/.exec(text.trim()) ?? [];
  const minutes = Number(hour) * 60 + Number(minute);
  return Number(minute) < 60 && minutes <= dayMinutes ? minutes % dayMinutes : undefined;
}

/** The part of the hours in which something new may start; undefined where the latest start is outside of them. */
function startHours(hours: Hours, latestStart: number): Hours | undefined {
  const isWithin = latestStart !== hours.from && (isInside(hours, latestStart) || latestStart === hours.to);
  return isWithin ? { ...hours, to: latestStart } : undefined;
}

/** Now where the hours are, else when they begin, also over a change of the clock. Epoch milliseconds. */
export function nextOpening(hours: Hours, now: number): number {
  const minuteOf = minuteReader(hours.zone);
  const minute = minuteOf(now);
  if (isInside(hours, minute)) return now;
  // Most of the way at once, then minute by minute, as the clock may be changed on the way.
  const away = (hours.from - minute + dayMinutes) % dayMinutes;
  const jump = Math.max(0, away - clockChangeMinutes);
  const start = Math.floor(now / minuteMs) + jump;
  for (let step = 1; step <= maxSearchMinutes; step += 1) {
    const at = (start + step) * minuteMs;
    if (isInside(hours, minuteOf(at))) return at;
  }
  throw new Error(`expected hours that come by within a day, got ${JSON.stringify(hours)}`);
}

function isInside({ from, to }: Hours, minute: number): boolean {
  return from < to ? minute >= from && minute < to : minute >= from || minute < to;
}

/** Returns the function that gives the minute of the day at an instant. */
function minuteReader(timeZone: string | undefined): (at: number) => number {
  const form = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  return (at) => {
    const [hour, minute] = form.format(at).split(":").map(Number);
    return (hour ?? 0) * 60 + (minute ?? 0);
  };
}

function isZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: zone }) !== undefined;
  } catch {
    return false;
  }
}
