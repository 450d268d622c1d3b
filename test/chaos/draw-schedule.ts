/** @file Draws the schedule of a seed: which requests meet which faults, which processes die when, and the kind of trial. */
import { type Random, stream } from "../../core/random.ts";
import {
  APP_RUN,
  type Channel,
  type Death,
  type Fault,
  type FaultKind,
  HOSTILE_PAGES,
  PROCESSES,
  type Schedule,
  STEPS,
  undisturbed,
  WORKERS,
} from "./schedule.ts";

/** What a fault is drawn from, by channel; a kind listed twice is drawn twice as often. `kindOf` draws two rare ones. */
export const KINDS: Record<Channel, readonly FaultKind[]> = {
  dynamo: ["delay", "late", "drop", "lose", "lose", "duplicate", "echo", "throttle", "error", "cut"],
  s3: ["delay", "late", "drop", "lose", "lose", "duplicate", "echo", "throttle", "error", "cut", "full"],
  world: ["delay", "late", "drop", "lose", "error", "throttle", "cut", "hang"],
  events: ["drop", "duplicate", "echo", "delay"],
  calls: ["delay", "late", "drop", "lose", "duplicate", "echo", "error", "cut"],
  app: ["delay", "late", "drop", "lose", "duplicate", "echo", "error", "throttle", "cut", "hang"],
  gateway: ["delay", "late", "drop", "lose", "duplicate", "echo", "error", "throttle", "cut", "hang"],
  api: ["delay", "late", "drop", "lose", "error", "throttle", "cut", "hang"],
};

const STORE: readonly Channel[] = ["dynamo", "s3"];
/** Share of the store's faults that are hanging requests. It is small, since each of them takes half a minute. */
const SILENCES = 0.01;
/** Share of the table's faults that are full disks. It is small, since each ends a worker, as a death does: see `drawDeaths`. */
const FULL_TABLES = 0.03;

/** Requests among which faults are drawn, by channel: about as many as a process sends, or receives on `events` and `calls`, in a trial of `STEPS` steps. */
const WORKER_REQUESTS = { dynamo: 250, s3: 100, world: 60, events: 0, calls: 30 };
const FUNCTION_REQUESTS: typeof WORKER_REQUESTS = { dynamo: 800, s3: 330, world: 60, events: 340, calls: 0 };
const requestsOf = (process: string) => (process === "functions" ? FUNCTION_REQUESTS : WORKER_REQUESTS);

/** What the functions and the workers send on. */
const OUTGOING = ["dynamo", "s3", "world"] as const;

/** The channels on which a process meets faults, apart from `app` and `gateway` (see `ATTEMPT_REQUESTS`) and `api` (see `API_REQUESTS`). */
function channelsOf(process: string): readonly (keyof typeof WORKER_REQUESTS)[] {
  if (process === "cloud" || process === "app") return [];
  if (process === "functions") return [...OUTGOING, "events"];
  return process.startsWith("searcher") ? [...OUTGOING, "calls"] : OUTGOING;
}

/** Who receives the requests of attempts, by channel, and how many. */
const ATTEMPT_REQUESTS: readonly (readonly [process: string, channel: Channel, requests: number])[] = [
  ["app", "app", 30],
  [`main-${APP_RUN}`, "gateway", 50],
  [`eval-${APP_RUN}`, "gateway", 50],
];
/** Share of the trials whose searcher is priced, and the requests to its API among which faults are drawn. */
const PRICED = 0.5;
const API_REQUESTS = 60;
/** Share of the trials whose run `a` trains asynchronously. */
const ASYNCHRONOUS = 0.5;
/** At most 2, and little enough that the last step's rollouts are sampled by a trained version. */
const stalenessOf = (steps: number) => Math.max(0, Math.min(2, steps - 2));
/** Share of a session's requests that hang: each takes as long as the attempt may. */
const SESSION_HANGS = 0.01;

/** A cloud refuses clocks that are off by more than 15 minutes. */
const CLOCK_MINUTES = 14;
/** An app refuses calls whose time is off by more than 5 minutes. */
const APP_CLOCK_MINUTES = 4;
const MAX_DEATHS = 2;
/** Of each process in a trial of `STEPS` steps: its requests and seconds among which deaths are drawn. */
const [MORTAL_REQUESTS, MORTAL_SECONDS] = [300, 40];
/** Stops are short; this share takes LONG_STOP_SECONDS, long enough for a worker to be declared dead. */
const LONG_STOPS = 0.15;
const LONG_STOP_SECONDS = 20;
/** Share of the trials in which the machine sleeps. */
const SLEEPS = 0.2;
const SLEEP_MINUTES = 60;
/** Share of the requests that meet a fault. */
const [MIN_RATE, MAX_RATE] = [0.005, 0.08];
const MAX_ECHO_SECONDS = 10;
/** Share of the delayed events that arrive long after their step. */
const VERY_LATE = 0.2;
const VERY_LATE_SECONDS = 20;

/** @param steps the steps of each run; the rate of faults and deaths per step does not depend on it. */
export function drawSchedule(seed: number, steps = STEPS): Schedule {
  const random = stream(seed, "chaos");
  // A stream of its own, so that the app's faults do not change those of the others.
  const ofApp = stream(seed, "chaos", "app");
  // The same for the priced searcher.
  const ofApi = stream(seed, "chaos", "api");
  const searcher = ofApi.uniform() < PRICED ? "priced" : "trained";
  // And for staleness.
  const staleness = stream(seed, "chaos", "staleness").uniform() < ASYNCHRONOUS ? stalenessOf(steps) : 0;
  const scale = steps / STEPS;
  // Squared, so that most trials have few faults and some have many.
  const rate = MIN_RATE + (MAX_RATE - MIN_RATE) * random.uniform() ** 2;
  return {
    seed,
    steps,
    searcher,
    staleness,
    page: HOSTILE_PAGES[random.integer(HOSTILE_PAGES.length)] ?? undisturbed.page,
    clocks: Object.fromEntries([
      ...[...WORKERS, "functions"].map((name) => [name, Math.round((2 * random.uniform() - 1) * CLOCK_MINUTES)]),
      ["app", Math.round((2 * ofApp.uniform() - 1) * APP_CLOCK_MINUTES)],
    ]),
    faults: [
      ...PROCESSES.flatMap((process) =>
        channelsOf(process).flatMap((channel) =>
          drawFaults(random, process, channel, rate, requestsOf(process)[channel] * scale),
        ),
      ),
      ...ATTEMPT_REQUESTS.flatMap(([process, channel, requests]) =>
        drawFaults(ofApp, process, channel, rate, requests * scale),
      ),
      ...drawSessionHangs(ofApp, WORKER_REQUESTS.calls * scale),
      ...(searcher === "priced" ? drawFaults(ofApi, "api", "api", rate, API_REQUESTS * scale) : []),
    ],
    deaths: PROCESSES.flatMap((process) => drawDeaths(process === "app" ? ofApp : random, process, scale)),
    sleeps:
      random.uniform() < SLEEPS ? [{ atSeconds: random.integer(MORTAL_SECONDS * scale), minutes: SLEEP_MINUTES }] : [],
  };
}

function drawFaults(random: Random, process: string, channel: Channel, rate: number, requests: number): Fault[] {
  const faults: Fault[] = [];
  for (let request = 0; request < requests; request++) {
    if (random.uniform() >= rate) continue;
    const kind = kindOf(channel, random);
    faults.push({ process, channel, request, kind, seconds: secondsOf(channel, kind, random) });
  }
  return faults;
}

function drawSessionHangs(random: Random, requests: number): Fault[] {
  return Array.from({ length: requests }, (_, request): Fault[] => {
    const process = `searcher-${APP_RUN}`;
    return random.uniform() < SESSION_HANGS ? [{ process, channel: "calls", request, kind: "hang", seconds: 0 }] : [];
  }).flat();
}

function kindOf(channel: Channel, random: Random): FaultKind {
  const kind = KINDS[channel][random.integer(KINDS[channel].length)] ?? "delay";
  if (STORE.includes(channel) && random.uniform() < SILENCES) return "hang";
  return channel === "dynamo" && random.uniform() < FULL_TABLES ? "full" : kind;
}

/** Mostly short, sometimes longer than a lease. */
function secondsOf(channel: Channel, kind: FaultKind, random: Random): number {
  if (kind === "echo") return 1 + random.integer(MAX_ECHO_SECONDS);
  if (kind !== "delay" && kind !== "late") return 0;
  if (channel === "events" && random.uniform() < VERY_LATE) return VERY_LATE_SECONDS;
  return Math.round(3000 * random.uniform() ** 4) / 1000;
}

/** Draws for every `STEPS` steps, so that deaths do not cluster in one evaluation: a rollout whose worker dies too often is abandoned. */
function drawDeaths(random: Random, process: string, scale: number): Death[] {
  return Array.from({ length: Math.ceil(scale) }, (_, part) => {
    const deaths = random.uniform() < 0.5 ? 0 : 1 + random.integer(MAX_DEATHS);
    return Array.from({ length: deaths }, () => drawDeath(random, process, part));
  }).flat();
}

/** @param part which `STEPS` steps of the trial, from 0. */
function drawDeath(random: Random, process: string, part: number): Death {
  const signal = random.uniform() < 0.7 ? "kill" : "stop";
  const isLong = random.uniform() < LONG_STOPS;
  const seconds = signal === "kill" ? 0 : isLong ? LONG_STOP_SECONDS : Math.round(30 * random.uniform()) / 10;
  if (random.uniform() < 0.5)
    return { process, signal, seconds, atSeconds: Math.round(10 * MORTAL_SECONDS * (part + random.uniform())) / 10 };
  const when = random.uniform() < 0.5 ? "before" : "after";
  return { process, signal, seconds, request: MORTAL_REQUESTS * part + random.integer(MORTAL_REQUESTS), when };
}
