/** @file The laws on the bill of a priced searcher, on histories made by hand. Times are in milliseconds since the trial began. */
import { expect, test } from "vitest";
import { apiLaws } from "./api-bill.ts";
import type { Entry, Trial } from "./history.ts";
import { LIMITS } from "./limits.ts";
import { API_SLOTS, MAX_OUTPUT_MICRO_USD } from "./priced-model.ts";

const [RECORD, ANSWERS, UNKNOWN] = Object.keys(apiLaws) as [string, string, string];

const entry = (process: string, more: Partial<Entry>): Entry => ({
  ...{ sentAt: 0, answeredAt: 1, process, channel: "api", method: "POST", path: "/", status: 200, facts: [] },
  fault: undefined,
  ...more,
});

/** The cost of the n-th answer: n tokens of output, 20 of input. */
const cost = (n: number) => 10_000 * n + 20;
/** The maximum of a request with 300 bytes of prompt. */
const MAX = MAX_OUTPUT_MICRO_USD + 100;

/** The n-th answer, at second n. Its connection stays open. */
function answered(n: number, more: Partial<Entry> = {}, process = "searcher-a"): Entry {
  const exchange = { receivedAt: 1000 * n, deliveredAt: 1000 * n + 5 };
  return entry(process, { answerMicroUsd: cost(n), exchange, ...more });
}

/** A request that gets no whole answer. */
const faulty = (fault: Entry["fault"], n = 50) =>
  entry("searcher-a", { fault, status: 0, exchange: { receivedAt: 1000 * n } });

const payment = (name: string, microUsd: number) => ({ run: "a", name, microUsd });
const paid = (name: string, microUsd: number, process = "searcher-a") =>
  entry(process, { channel: "dynamo", payment: payment(name, microUsd) });
const unanswered = (name: string, microUsd: number) =>
  entry("searcher-a", { channel: "dynamo", status: 0, possiblePayment: payment(name, microUsd) });

/** Four turns of two processes. The second answer comes after a response that was cut. */
const story = () => [
  answered(1),
  paid("1.1", cost(1)),
  faulty("cut", 2),
  answered(2),
  paid("1.2", MAX + cost(2)),
  answered(3, {}, "eval-a"),
  paid("2.1", cost(3), "eval-a"),
  faulty("drop"),
  faulty("error"),
  answered(4, { fault: "lose" }),
  answered(5, { fault: "late" }),
  paid("1.3", cost(5)),
];
const SUM = cost(1) + MAX + cost(2) + cost(3) + cost(5);

function trialOf(history: readonly Entry[], agentsMicroUsd = SUM, more: Partial<Trial> = {}): Trial {
  const bills = { judgesMicroUsd: 0, toolsMicroUsd: 0, agentsMicroUsd };
  const runs = [{ run: "a", status: "finished", records: {}, ...bills, foreignTrajectories: [] }];
  const rest = { log: [], strikes: [], limits: LIMITS, starts: {}, ends: [] };
  return { endedInTime: true, seconds: 100, runs, history, ...rest, ...more };
}

const broken = (trial: Trial) =>
  Object.entries(apiLaws).flatMap(([name, law]) => (law(trial).length === 0 ? [] : [name]));
/** The laws that are broken if these entries are added to the history, and their payments to the run's bill. */
function brokenBy(added: readonly Entry[], more: Partial<Trial> = {}, history = story()): string[] {
  const all = [...history, ...added];
  const sum = all.reduce((total, one) => total + (one.payment?.microUsd ?? 0), 0);
  return broken(trialOf(all, sum, more));
}
const without = (name: string) => story().filter(({ payment: one }) => one?.name !== name);

test("the laws allow a bill with each answer at its cost, each response that is cut at the maximum, and nothing for what was lost", () => {
  expect(broken(trialOf(story()))).toEqual([]);
});

test("the record has the sum of the payments, each once", () => {
  expect(broken(trialOf(story(), SUM - cost(1)))).toEqual([RECORD]);
  expect(broken(trialOf(story(), SUM + cost(1)))).toEqual([RECORD]);
  const again = [...story(), paid("1.1", cost(1))];
  expect(broken(trialOf(again))).toEqual([RECORD]);
  expect(broken(trialOf(again, SUM + cost(1)))).toEqual([RECORD]);
});

const wrong: [string, readonly string[], readonly Entry[]][] = [
  ["an answer that is not paid for", [ANSWERS, UNKNOWN], [answered(6)]],
  ["an answer that is paid for twice", [ANSWERS, UNKNOWN], [paid("1.4", cost(1))]],
  ["an answer that is paid for by another process, too", [ANSWERS], [paid("2.2", cost(1), "eval-a")]],
  ["an answer that was lost and is paid for", [ANSWERS, UNKNOWN], [paid("1.4", cost(4))]],
  [
    "an answer that is paid for with one token of input too many",
    [ANSWERS, UNKNOWN],
    [answered(6), paid("1.4", cost(6) + 1)],
  ],
  ["an answer that is paid for at the maximum", [ANSWERS], [answered(6), paid("1.4", MAX)]],
  [
    "an answer that is paid for, plus a maximum that nothing explains",
    [UNKNOWN],
    [answered(6), paid("1.4", MAX + cost(6))],
  ],
  ["a response that is cut and not paid for", [UNKNOWN], [faulty("cut")]],
  ["a response that is cut and paid for at its cost", [ANSWERS], [answered(6, { fault: "cut" }), paid("1.4", cost(6))]],
  ["a request that is never answered and not paid for", [UNKNOWN], [faulty("hang")]],
  ["a response that is cut and paid for twice", [UNKNOWN], [faulty("cut"), paid("1.4", 2 * MAX)]],
  ["a refused request that is paid for", [UNKNOWN], [faulty("throttle"), paid("1.4", MAX)]],
];

/** A request whose connection the proxy closes 5 ms after it arrived, unless its caller has closed it by then. */
const closedByProxy = (fault: "drop" | "lose", closedAt = 6006) =>
  entry("searcher-a", { fault, answeredAt: 6005, exchange: { receivedAt: 6000, deliveredAt: 6005, closedAt } });

test.each(["drop", "lose"] as const)(
  "a request with the fault %s is paid for only if its caller abandoned it before the proxy closed the connection",
  (fault) => {
    expect(brokenBy([closedByProxy(fault), paid("1.4", MAX)])).toEqual([UNKNOWN]);
    expect(brokenBy([closedByProxy(fault)])).toEqual([]);
    expect(brokenBy([closedByProxy(fault, 6003), paid("1.4", MAX)])).toEqual([]);
  },
);

test.each(wrong)("%s breaks the laws that forbid it, and no other", (_what, expected, added) => {
  expect(brokenBy(added)).toEqual(expected);
});

test("a process that ends may leave a turn unpaid for each of its slots: only turns of its own, from before its end", () => {
  const end = (at: number, process = "searcher-a") => ({ ends: [{ process, at }] });
  const unpaid = Array.from({ length: API_SLOTS }, (_, i) => answered(6 + i));
  const [first = expect.fail()] = unpaid;
  expect(brokenBy(unpaid, end(20_000))).toEqual([]);
  expect(brokenBy([...unpaid, answered(9)], end(20_000))).toEqual([ANSWERS]);
  expect(brokenBy(unpaid, end(2000))).toEqual([ANSWERS]);
  expect(brokenBy(unpaid, end(20_000, "eval-a"))).toEqual([ANSWERS, UNKNOWN]);
  // A request that arrives just after the end was sent before it.
  expect(brokenBy([first], end(5950))).toEqual([]);
  expect(brokenBy([faulty("cut"), faulty("hang")], end(90_000))).toEqual([]);
  expect(brokenBy([paid("1.4", cost(1))], end(20_000))).toContain(ANSWERS);
});

test("an answer is paid for at its cost or at the maximum if its caller closed its connection at once or was stopped, but not both or neither", () => {
  const closed = answered(6, { exchange: { receivedAt: 6000, deliveredAt: 6005, closedAt: 6010 } });
  const late = answered(6, { exchange: { receivedAt: 6000, deliveredAt: 6005, closedAt: 40_000 } });
  const stop = (process: string) => ({ strikes: [{ process, signal: "stop", seconds: 20, at: 5990 } as const] });
  for (const [request, more] of [[closed, {}] as const, [late, stop("searcher-a")] as const]) {
    expect(brokenBy([request, paid("1.4", cost(6))], more)).toEqual([]);
    expect(brokenBy([request, paid("1.4", MAX)], more)).toEqual([]);
    expect(brokenBy([request], more)).toEqual([UNKNOWN]);
  }
  expect(brokenBy([closed, paid("1.4", MAX + cost(6))])).toEqual([UNKNOWN]);
  for (const more of [{}, stop("eval-a")]) expect(brokenBy([late, paid("1.4", MAX)], more)).toEqual([ANSWERS]);
});

test("a payment during which the table's process died may count or not, and its retry counts once", () => {
  const maybe = [...without("1.3"), unanswered("1.3", cost(5))];
  for (const sum of [SUM, SUM - cost(5)]) expect(broken(trialOf(maybe, sum))).toEqual([]);
  expect(broken(trialOf(maybe, SUM - 1))).toEqual([RECORD]);
  expect(broken(trialOf([...maybe, paid("1.3", cost(5))]))).toEqual([]);
  expect(broken(trialOf([...maybe, paid("1.3", cost(5))], SUM - cost(5)))).toEqual([RECORD]);
});
