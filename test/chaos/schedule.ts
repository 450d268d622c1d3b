/**
 * @file A schedule: everything that goes wrong in one trial, as data. It is drawn from a seed, and can be written to a file, replayed, and
 * shrunk. Faults are bound to the n-th request of a process on a channel, deaths to a request or a time, so a replay
 * meets them at nearly the same points; when a request is sent still depends on the machine.
 */
import * as z from "zod";

/** The runs of a trial share one cloud. */
export const RUNS = ["a", "b"] as const;

export const WORKERS = RUNS.flatMap((run) => [`main-${run}`, `searcher-${run}`, `eval-${run}`]);
/** `app` is the app that runs the rollouts of APP_RUN. */
export const PROCESSES = ["cloud", "functions", ...WORKERS, "app"] as const;
/** The run whose rollouts are the app's: its main worker and its evaluation worker call the app. */
export const APP_RUN = "b";

/**
 * What a request travels through: the store's two APIs; `world`, which has the judge, the tool and the model's delay; `events`, events
 * and ticks from the cloud to the functions; `calls`, to a sub-agent's worker: delegations or, in APP_RUN, the turns and ends of sessions;
 * `app`, attempts from workers to the app; `gateway`, the app's requests to the worker that made the attempt; `api`, requests to the API of
 * a priced searcher, by its worker and the evaluation worker.
 */
const CHANNELS = ["dynamo", "s3", "world", "events", "calls", "app", "gateway", "api"] as const;
export type Channel = (typeof CHANNELS)[number];

const FaultKind = z.enum([
  "delay",
  "late",
  "drop",
  "lose",
  "duplicate",
  "echo",
  "throttle",
  "error",
  "cut",
  "full",
  "hang",
]);
export type FaultKind = z.infer<typeof FaultKind>;

const Fault = z.strictObject({
  process: z.string(),
  channel: z.enum(CHANNELS),
  /** Which request of this process on this channel, from 0. */
  request: z.int().nonnegative(),
  /**
   * delay: it arrives late; late: its answer does; drop: it never arrives; lose: it takes effect and its answer is lost; duplicate: it
   * arrives twice at once; echo: it arrives again after `seconds`; throttle, error, full: refused as the service would; cut: its answer
   * breaks off halfway, before its head if it has no body; hang: it is accepted and never answered; it ends when the caller gives up.
   */
  kind: FaultKind,
  seconds: z.number().nonnegative(),
});
export type Fault = z.infer<typeof Fault>;

const DeathParts = z.strictObject({
  process: z.string(),
  /** kill: SIGKILL, and the process is started again. stop: SIGSTOP, and SIGCONT after `seconds`. */
  signal: z.enum(["kill", "stop"]),
  seconds: z.number().nonnegative(),
});
const Death = z.union([
  DeathParts.extend({
    /** Which of its requests to the store, the world and the API, from 0; for the cloud, which request to the store; for the app, to the gateway. */
    request: z.int().nonnegative(),
    /** Before the request is passed on, or when it is over. */
    when: z.enum(["before", "after"]),
  }),
  DeathParts.extend({
    /** Since the process was first started. */
    atSeconds: z.number().nonnegative(),
  }),
]);
export type Death = z.infer<typeof Death>;

/**
 * The machine sleeps, as a laptop does: all processes are stopped, and when they continue, the store's clock is ahead by `minutes`. So by
 * the store's clock, events that were under way, heartbeats and answers are late by that time.
 */
const Sleep = z.strictObject({
  /** Since the trial began. */
  atSeconds: z.number().nonnegative(),
  minutes: z.number().positive(),
});
export type Sleep = z.infer<typeof Sleep>;

/** The page that is made to break its reader, by the function that builds it: see hostile-pages.ts. */
const HostilePage = z.enum([
  "farCell",
  "repeatedString",
  "manyParts",
  "longTitle",
  "longPage",
  "longBase",
  "nestedElements",
  "multipliedElements",
]);
export type HostilePage = z.infer<typeof HostilePage>;
export const HOSTILE_PAGES = HostilePage.options;

/** The searcher of run `a`: trained, or frozen behind an API with prices. */
const Searcher = z.enum(["trained", "priced"]);

export const Schedule = z.strictObject({
  seed: z.int().nonnegative(),
  /** Steps of each run. */
  steps: z.int().positive(),
  page: HostilePage,
  searcher: Searcher.default("trained"),
  /** Of run `a`. The run whose rollouts are the app's always has 1. */
  staleness: z.int().nonnegative().default(0),
  /** Minutes by which a process's wall clock is off. */
  clocks: z.record(z.string(), z.number()),
  faults: z.array(Fault),
  deaths: z.array(Death),
  sleeps: z.array(Sleep),
});
export type Schedule = z.infer<typeof Schedule>;

/** Default number of steps of each run. */
export const STEPS = 3;

/** No faults, deaths, sleeps or clocks that are off. */
export const undisturbed: Schedule = {
  seed: 0,
  steps: STEPS,
  page: "farCell",
  searcher: "trained",
  staleness: 0,
  clocks: {},
  faults: [],
  deaths: [],
  sleeps: [],
};

/** The undisturbed trial that a schedule's trial is compared with. */
export const referenceOf = ({ steps, searcher, staleness }: Schedule): Schedule => ({
  ...undisturbed,
  steps,
  searcher,
  staleness,
});

/** The number of disturbances: a page other than that of `undisturbed`, and each fault, death, sleep and clock that is off. */
export const sizeOf = ({ page, faults, deaths, sleeps, clocks }: Schedule): number =>
  Number(page !== undisturbed.page) +
  faults.length +
  deaths.length +
  sleeps.length +
  Object.values(clocks).filter((minutes) => minutes !== 0).length;
