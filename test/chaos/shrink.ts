/**
 * @file Shrinks a failing schedule (delta debugging, Zeller and Hildebrandt 2002): tries to leave out ever smaller pieces, each of one or more
 * parts, and drops a piece if the rest still fails. Trials are not deterministic, so `fails` should try a schedule several times before it
 * counts as passing.
 */
import { type Schedule, sizeOf, undisturbed } from "./schedule.ts";

type Part =
  | { readonly fault: Schedule["faults"][number] }
  | { readonly death: Schedule["deaths"][number] }
  | { readonly sleep: Schedule["sleeps"][number] }
  | { readonly clock: readonly [string, number] }
  | { readonly page: Schedule["page"] };

const partsOf = ({ page, faults, deaths, sleeps, clocks }: Schedule): Part[] => [
  ...(page === undisturbed.page ? [] : [{ page }]),
  ...faults.map((fault) => ({ fault })),
  ...deaths.map((death) => ({ death })),
  ...sleeps.map((sleep) => ({ sleep })),
  ...Object.entries(clocks)
    .filter(([, minutes]) => minutes !== 0)
    .map((clock) => ({ clock })),
];

const scheduleOf = ({ seed, steps, searcher, staleness }: Schedule, parts: readonly Part[]): Schedule => ({
  seed,
  steps,
  searcher,
  staleness,
  page: parts.flatMap((part) => ("page" in part ? [part.page] : []))[0] ?? undisturbed.page,
  faults: parts.flatMap((part) => ("fault" in part ? [part.fault] : [])),
  deaths: parts.flatMap((part) => ("death" in part ? [part.death] : [])),
  sleeps: parts.flatMap((part) => ("sleep" in part ? [part.sleep] : [])),
  clocks: Object.fromEntries(parts.flatMap((part) => ("clock" in part ? [part.clock] : []))),
});

/**
 * @param fails whether a schedule fails
 * @param hasTime false once the time is up: the shortest schedule so far is returned
 */
export async function shrink(
  schedule: Schedule,
  fails: (candidate: Schedule) => Promise<boolean>,
  hasTime: () => boolean,
): Promise<Schedule> {
  let parts = partsOf(schedule);
  let pieces = 2;
  while (parts.length > 1 && pieces <= parts.length && hasTime()) {
    const size = Math.ceil(parts.length / pieces);
    const kept = await firstFailing(parts, size, (rest) => fails(scheduleOf(schedule, rest)), hasTime);
    if (kept) {
      parts = kept;
      pieces = Math.max(2, pieces - 1);
    } else if (size === 1) {
      break;
    } else {
      pieces = Math.min(parts.length, 2 * pieces);
    }
  }
  const shortest = scheduleOf(schedule, parts);
  return sizeOf(shortest) < sizeOf(schedule) ? shortest : schedule;
}

/** The parts without the first piece of this size whose absence leaves a failing schedule. */
async function firstFailing(
  parts: readonly Part[],
  size: number,
  fails: (rest: Part[]) => Promise<boolean>,
  hasTime: () => boolean,
): Promise<Part[] | undefined> {
  for (let at = 0; at < parts.length && hasTime(); at += size) {
    const rest = [...parts.slice(0, at), ...parts.slice(at + size)];
    if (await fails(rest)) return rest;
  }
  return undefined;
}
