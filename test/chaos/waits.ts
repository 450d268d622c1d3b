/**
 * @file The law on waits. A request that gets no answer ends at its caller's deadline, and every request of an attempt by an app ends with the
 * attempt. A lease that its holder neither extends nor releases ends: a worker is declared dead, a verdict is asked for again. Each happens
 * within the slack, plus the time of whatever hindered it, plus the time for which a process had no processor.
 */
import type { Entry, LeaseChange, Trial } from "./history.ts";
import type { WaitLimits } from "./limits.ts";
import { APP_RUN } from "./schedule.ts";
import { starvedSeconds } from "./starvation.ts";

/** From a kill until the restarted process works. */
const RESTART_SECONDS = 5;

export function overdueWaits(trial: Trial): string[] {
  return [...overdueAnswers(trial), ...overdueLeases(trial)];
}

/**
 * Checks the requests that hung, whose `answeredAt` is when the caller abandoned them, and all requests of attempts: the worker abandons an attempt
 * `limits.rollout` after its call to the app, and the app and all agents end with it.
 */
function overdueAnswers(trial: Trial): string[] {
  const bounded = trial.history.filter((entry) => isHung(entry) || isOfAttempt(entry));
  return bounded.flatMap((entry) => {
    const from = startOfLimit(trial, entry);
    const limit = limitSeconds(entry, trial.limits);
    const waited = (entry.answeredAt - from) / 1000;
    if (waited <= limit + trial.limits.slack) return [];
    const allowed = limit + hinderedSeconds(trial, strikesOf(trial), from, entry.answeredAt);
    return waited > allowed + trial.limits.slack
      ? [`${entry.process} waited ${brief(waited)} for ${entry.channel} ${entry.path}, instead of ${brief(allowed)}`]
      : [];
  });
}

const isHung = ({ fault }: Entry) => fault === "hang";
const isOfStore = ({ channel }: Entry) => channel === "dynamo" || channel === "s3";
const brief = (seconds: number) => `${seconds.toFixed(1)} s`;

function limitSeconds(entry: Entry, limits: WaitLimits): number {
  if (isOfStore(entry)) return limits.store;
  if (isOfAttempt(entry)) return limits.rollout;
  if (isOfModel(entry)) return isOfInvocation(entry) ? limits.invocation : limits.rollout;
  return entry.path.startsWith("/page") ? limits.tool : limits.judge;
}

/** A call to an app, a request of its agents, or a request that a worker forwards to a sub-agent's worker. */
const isOfAttempt = ({ channel, path }: Entry) =>
  channel === "app" || channel === "gateway" || (channel === "calls" && path.includes("/sessions/"));

const isOfModel = ({ path }: Entry) => path.startsWith("/think");
/** The sub-agents of an app have no invocations: their turns end with the attempt. */
const isOfInvocation = ({ process }: Entry) => process.startsWith("searcher") && !process.endsWith(`-${APP_RUN}`);

/**
 * A rollout may begin before its step opens, but its time limits start only then. That is at the latest when the run last advanced before the
 * request ended.
 */
function startOfLimit({ history }: Trial, entry: Entry): number {
  if (!isOfModel(entry)) return entry.sentAt;
  const advance = `advance RUN#${entry.process.split("-").at(-1)} `;
  const advances = history.filter(({ facts }) => facts.some((fact) => fact.startsWith(advance)));
  const before = advances.map(({ answeredAt }) => answeredAt).filter((at) => at <= entry.answeredAt);
  return Math.max(entry.sentAt, ...before);
}

interface HeldLease {
  readonly from: number;
  /** The end of the lease. */
  readonly until: number;
}

function overdueLeases(trial: Trial): string[] {
  const leases = new Map<string, HeldLease | "over">();
  const hindrances = [...strikesOf(trial), ...silencesOf(trial)];
  const late = (name: string, now: number): string[] => {
    const lease = leases.get(name);
    if (lease === undefined || lease === "over") return [];
    const { from, until } = lease;
    const overdue = (now - until) / 1000;
    if (overdue <= trial.limits.slack) return [];
    const allowed = trial.limits.slack + hinderedSeconds(trial, hindrances, from, now);
    const wait = `${name}: held from ${brief(from / 1000)}, overdue by ${brief(overdue)}`;
    return overdue > allowed ? [`${wait}, instead of ${brief(allowed)}`] : [];
  };
  const changes = trial.history.flatMap((entry) => changeOf(entry) ?? []);
  const found = changes
    .toSorted((a, b) => a.at - b.at)
    .flatMap((change) => {
      const { name, act, at } = change;
      const overdue = late(name, at);
      if (leases.get(name) === "over") return [];
      if (act === "grant") leases.set(name, { from: at, until: at + 1000 * heldSeconds(change, trial.limits) });
      else if (act === "end") leases.set(name, "over");
      else leases.delete(name);
      return overdue;
    });
  const ends = new Map(trial.runs.map(({ run }) => [run, endOf(trial, run)]));
  const checkedUntil = (name: string) => ends.get(/^\w+#([^# ]+)/.exec(name)?.[1] ?? "") ?? trial.seconds * 1000;
  return [...found, ...[...leases.keys()].flatMap((name) => late(name, checkedUntil(name)))];
}

/** If the target of a write that ends a lease dies during it, the write may have taken effect, so the lease counts as ended. */
function changeOf({ lease, possibleLease, answeredAt }: Entry): (LeaseChange & { readonly at: number }) | undefined {
  const change = lease ?? (possibleLease?.act === "end" ? possibleLease : undefined);
  return change && { ...change, at: answeredAt };
}

/**
 * A tick records a heartbeat up to half a lease late. One lease later, a tick suspects the worker; half a lease after that, a tick declares
 * it dead: two leases and three ticks. A claim on a verdict has its own duration.
 */
function heldSeconds({ seconds }: Extract<LeaseChange, { act: "grant" }>, { lease, tick }: WaitLimits): number {
  return seconds ?? 2 * lease + 3 * tick;
}

/** When the leases of a run are no longer needed: at the end of the trial or, if the run has finished, at its last fact that is not about a worker's record. */
function endOf({ runs, history, seconds }: Trial, name: string): number {
  if (runs.find(({ run }) => run === name)?.status !== "finished") return seconds * 1000;
  const ofRun = new RegExp(`[#/]${name}[#/ ]`);
  const isOfRun = (fact: string) => ofRun.test(fact) && !fact.includes(" WORKER#");
  return history.reduce((last, { facts, answeredAt }) => (facts.some(isOfRun) ? Math.max(last, answeredAt) : last), 0);
}

/** A period that a process could not use. */
interface Hindrance {
  readonly at: number;
  readonly seconds: number;
}

/** When processes were stopped or restarting. */
const strikesOf = ({ strikes }: Trial): Hindrance[] =>
  strikes.map(({ at, signal, seconds }) => ({ at, seconds: signal === "kill" ? RESTART_SECONDS : seconds }));

/** When processes waited for a silent store. */
const silencesOf = ({ history }: Trial): Hindrance[] =>
  history
    .filter((entry) => isHung(entry) && isOfStore(entry))
    .map(({ sentAt, answeredAt }) => ({ at: sentAt, seconds: (answeredAt - sentAt) / 1000 }));

/** The time of what hindered a wait, and the longest time for which one process had no processor. */
const hinderedSeconds = ({ starvation = [] }: Trial, hindrances: readonly Hindrance[], from: number, to: number) =>
  secondsOfOverlapping(hindrances, from, to) + starvedSeconds(starvation, from, to);

/** The whole duration of each hindrance that overlaps the period, including what lies outside it. */
const secondsOfOverlapping = (hindrances: readonly Hindrance[], from: number, to: number): number =>
  hindrances
    .filter(({ at, seconds }) => at < to && at + 1000 * seconds > from)
    .reduce((sum, { seconds }) => sum + seconds, 0);
