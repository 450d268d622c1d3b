/**
 * @file The laws on the bill of a priced searcher. Every answer of its API has a cost of its own, so a payment's amount
 * identifies its answer. A turn is paid once, when its last request has ended:
 *
 *     answered                                       the answer's cost
 *     broken off, abandoned, never answered          the maximum, on top, for each such request of the turn
 *     dropped, refused, lost before the response     nothing
 *
 * A turn holds one of its process's slots until it is paid. So a process that ends leaves at most one turn unpaid for each of its slots;
 * nothing else leaves any. An answer may be billed at the maximum only if its caller may have abandoned it before reading it.
 */
import type { Entry, Trial } from "./history.ts";
import type { Payment } from "./payments.ts";
import { API_ATTEMPTS, API_SLOTS, MAX_INPUT_MICRO_USD, MAX_OUTPUT_MICRO_USD } from "./priced-model.ts";
import { RESTART_MS } from "./supervisor.ts";

type ApiLaw = (trial: Trial) => string[];

export const apiLaws: Readonly<Record<string, ApiLaw>> = {
  "the bill of agents behind APIs has each of their payments once": (trial) =>
    trial.runs.flatMap(({ run, agentsMicroUsd }) => recordErrors(trial, run, agentsMicroUsd)),

  "every answer of an API is billed once": (trial) =>
    accountsOf(trial).flatMap((account) => answerErrors(trial, account)),

  "a request to an API is billed at its maximum if its cost is unknown, and only then": (trial) =>
    accountsOf(trial).flatMap((account) => unknownErrors(trial, account)),
};

/**
 * Exact, except for payments during which the table's process died and of which no retry took effect: the bill may or may not have each.
 */
function recordErrors({ history }: Trial, run: string, billed: number): string[] {
  const isOfRun = (payment: Payment) => payment.run === run;
  const counted = history.flatMap(({ payment }) => payment ?? []).filter(isOfRun);
  const possible = history.flatMap(({ possiblePayment }) => possiblePayment ?? []).filter(isOfRun);
  const names = new Set(counted.map(({ name }) => name));
  const twice = counted.length - names.size;
  const sum = counted.reduce((total, { microUsd }) => total + microUsd, 0);
  const sums = new Set([sum]);
  for (const { name, microUsd } of uniqueOf(possible))
    if (!names.has(name)) for (const other of [...sums]) sums.add(other + microUsd);
  return [
    ...(twice > 0 ? [`run ${run}: ${twice} payments counted twice`] : []),
    ...(sums.has(billed) ? [] : [`run ${run}: billed ${billed} micro-dollars, payments of ${[...sums].join(" or ")}`]),
  ];
}

const uniqueOf = (payments: readonly Payment[]) => [...new Map(payments.map((one) => [one.name, one])).values()];

/** One process's requests to the API, and its payments. */
interface Account {
  readonly process: string;
  readonly requests: readonly Entry[];
  readonly paid: readonly Paid[];
}

/** A payment, split into what it pays for. */
interface Paid {
  readonly microUsd: number;
  /** The cost of the turn's answer. Absent: it has none. */
  readonly answer?: number;
  /** Number of requests that are billed at their maximum. */
  readonly unknown: number;
  /** The table's process died during it: it may count or not. */
  readonly isPossible: boolean;
}

function accountsOf({ history }: Trial): Account[] {
  const ofApi = history.filter(({ channel }) => channel === "api");
  const payers = history.flatMap((entry) => (entry.payment || entry.possiblePayment ? [entry.process] : []));
  const processes = new Set([...ofApi.map(({ process }) => process), ...payers]);
  return [...processes].map((process) => {
    const requests = ofApi.filter((entry) => entry.process === process);
    const costs = requests.flatMap(({ answerMicroUsd }) => answerMicroUsd ?? []);
    return { process, requests, paid: paidBy(history, process, costs) };
  });
}

function paidBy(history: Trial["history"], process: string, costs: readonly number[]): Paid[] {
  const own = history.filter((entry) => entry.process === process);
  const counted = uniqueOf(own.flatMap(({ payment }) => payment ?? []));
  const names = new Set(counted.map(({ name }) => name));
  const possible = uniqueOf(own.flatMap(({ possiblePayment }) => possiblePayment ?? []));
  return [
    ...counted.map(({ microUsd }) => decompose(microUsd, costs, false)),
    ...possible.filter(({ name }) => !names.has(name)).map(({ microUsd }) => decompose(microUsd, costs, true)),
  ];
}

/**
 * The parts are unambiguous: the output of a request of unknown cost is billed higher than any answer, and the inputs of all of a turn's
 * requests of unknown cost, together, lower than one output token.
 */
function decompose(microUsd: number, costs: readonly number[], isPossible: boolean): Paid {
  const unknown = Math.floor(microUsd / MAX_OUTPUT_MICRO_USD);
  const rest = microUsd - unknown * MAX_OUTPUT_MICRO_USD;
  const answer = costs.find((cost) => cost <= rest && rest <= cost + unknown * MAX_INPUT_MICRO_USD);
  return { microUsd, unknown, isPossible, ...(answer !== undefined && { answer }) };
}

function answerErrors(trial: Trial, { process, requests, paid }: Account): string[] {
  const wrong = paid.filter(
    ({ microUsd, answer, unknown }) =>
      answer === undefined && microUsd > unknown * (MAX_OUTPUT_MICRO_USD + MAX_INPUT_MICRO_USD),
  );
  const billed = paid.filter(({ isPossible }) => !isPossible).flatMap(({ answer }) => answer ?? []);
  const twice = billed.filter((cost, i) => billed.indexOf(cost) !== i);
  const named = new Set(paid.map(({ answer }) => answer));
  const unread = requests.filter((entry) => named.has(entry.answerMicroUsd ?? -1) && !isDelivered(entry));
  const missing = requests.filter((entry) => isCertain(trial, entry) && !named.has(entry.answerMicroUsd));
  return [
    ...wrong.map(({ microUsd }) => `${process} paid ${microUsd} micro-dollars, the cost of none of its turns`),
    ...twice.map((cost) => `${process} paid twice for the answer of ${cost} micro-dollars`),
    ...unread.map(
      ({ answerMicroUsd }) => `${process} paid for the answer of ${answerMicroUsd} micro-dollars, which it did not get`,
    ),
    ...unpaidErrors(trial, process, missing),
  ];
}

/** For each life of the process: one that failed or was killed leaves at most one turn unpaid for each slot. */
function unpaidErrors(trial: Trial, process: string, missing: readonly Entry[]): string[] {
  const ends = endsOf(trial, process);
  const lifeOf = ({ exchange }: Entry) => ends.filter((at) => at + RESTART_MS < (exchange?.receivedAt ?? 0)).length;
  return [...ends, undefined].flatMap((end, life) => {
    const unpaid = missing.filter((entry) => lifeOf(entry) === life);
    if (unpaid.length <= (end === undefined ? 0 : API_SLOTS)) return [];
    const costs = unpaid.map(({ answerMicroUsd }) => answerMicroUsd).join(", ");
    return [`life ${life} of ${process} did not pay for answers of ${costs} micro-dollars`];
  });
}

/**
 * Every request that was answered, broken off or abandoned is paid, once, with its cost or its maximum. So is one that a stopped process
 * abandoned before sending it.
 */
function unknownErrors(trial: Trial, { process, requests, paid }: Account): string[] {
  const due = requests.filter((entry) => isDelivered(entry) || entry.fault === "cut" || entry.fault === "hang");
  const stops = trial.strikes.filter((strike) => strike.process === process && strike.signal === "stop").length;
  const perhaps =
    requests.filter((entry) => !due.includes(entry) && mayHaveGivenUp(trial, entry)).length + stops * API_SLOTS;
  const unpaid = endsOf(trial, process).length * API_SLOTS * API_ATTEMPTS;
  const countOf = (payments: readonly Paid[]) =>
    payments.reduce((sum, { answer, unknown }) => sum + unknown + (answer === undefined ? 0 : 1), 0);
  const least = countOf(paid.filter(({ isPossible }) => !isPossible));
  const most = countOf(paid);
  if (least <= due.length + perhaps && most >= due.length - unpaid) return [];
  const expected = rangeText(due.length - unpaid, due.length + perhaps);
  return [`${process} paid for ${rangeText(least, most)} requests, instead of ${expected}`];
}

const endsOf = ({ ends }: Trial, name: string): number[] =>
  ends.filter(({ process }) => process === name).map(({ at }) => at);

const rangeText = (least: number, most: number) => (least === most ? `${least}` : `${least} to ${most}`);

const isDelivered = ({ answerMicroUsd, fault }: Entry): boolean =>
  answerMicroUsd !== undefined && fault !== "cut" && fault !== "lose";

/** Whether its caller certainly read the whole answer. */
const isCertain = (trial: Trial, entry: Entry): boolean => isDelivered(entry) && !mayHaveGivenUp(trial, entry);

/** A caller that closes its connection this soon after the answer may not have read it. */
const READ_MS = 5000;
/** A caller that is stopped this soon after the answer may not have read it, and its time may be up when it continues. */
const STOP_MS = 1000;

/** Whether the caller may have canceled the request, or its time may have been up, before it read the answer. */
function mayHaveGivenUp({ strikes }: Trial, { process, fault, exchange, answeredAt }: Entry): boolean {
  if (!exchange) return false;
  const { receivedAt, deliveredAt = answeredAt, closedAt = Number.POSITIVE_INFINITY } = exchange;
  const isStopped = strikes.some(
    (strike) =>
      strike.process === process &&
      strike.signal === "stop" &&
      strike.at < deliveredAt + STOP_MS &&
      strike.at + 1000 * strike.seconds > receivedAt,
  );
  // The proxy itself closes the connection of a dropped request or a lost answer: its caller had abandoned it only if it closed it before.
  const isClosedByProxy = fault === "drop" || fault === "lose";
  return isStopped || closedAt < deliveredAt + (isClosedByProxy ? 0 : READ_MS);
}
