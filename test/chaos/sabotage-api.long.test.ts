/**
 * @file The checker finds what is broken in the billing of agents behind APIs: small trials with a priced searcher, each with one part of the
 * program replaced. Together they break every law on that bill. api-bill.test.ts breaks histories instead.
 */
import { beforeAll, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { ChatModel } from "../../core/language-model-ports.ts";
import type { Store, TableChange } from "../../core/ports.ts";
import { apiLaws } from "./api-bill.ts";
import { check } from "./checker.ts";
import type { Trial } from "./history.ts";
import { runSmallTrial, type Sabotage, type SmallProcess } from "./small-trial.ts";

/** Faults of requests to the API. After each but `late`, which only delays the answer, the request is sent again. */
const FAULTS = (["cut", "lose", "drop", "error", "cut", "late"] as const).map((kind, i) => ({ kind, request: 3 * i }));

const isPayment = ({ key, add = [] }: TableChange) =>
  key.sk === tableKeys.agentSpending("a").sk && add.some(([[name]]) => name === "microUsd");

/** Changes how the searcher's payments are written. */
const paying =
  (pay: (table: Store["table"], change: TableChange) => ReturnType<Store["table"]["update"]>) =>
  (store: Store, process: SmallProcess): Store => ({
    ...store,
    table: {
      ...store.table,
      update: (change) =>
        process === "searcher" && isPayment(change) ? pay(store.table, change) : store.table.update(change),
    },
  });

/** Reports the payment as counted. */
async function withoutPaying(table: Store["table"], change: TableChange) {
  const item = (await table.get(change.key)) ?? {};
  const [[[, payer = ""], number]] = change.set as [[string[], number]];
  return { applied: true, item: { ...item, payments: { ...(item["payments"] as object), [payer]: number } } };
}

/** Written twice, as after a lost answer, and without the condition that makes the second write harmless. */
async function payingTwice(table: Store["table"], change: TableChange) {
  await table.update({ ...change, when: [] });
  return table.update({ ...change, when: [] });
}

/** Written as two payments, each with a number of its own, as by a client that pays in two places. */
function payingInTwoPlaces(table: Store["table"], change: TableChange) {
  const [[[attribute = "", payer = ""], number]] = change.set as [[string[], number]];
  const other = { ...change, set: [[[attribute, `1000${payer}`], number]], when: [] } satisfies TableChange;
  return table.update(other).then(() => table.update(change));
}

const raising = (table: Store["table"], change: TableChange) =>
  table.update({ ...change, add: (change.add ?? []).map(([path, n]) => [path, path[0] === "microUsd" ? 2 * n : n]) });

const withoutSums = (table: Store["table"], change: TableChange) => table.update({ ...change, add: [] });

/** Requests of unknown cost are free. */
const forgivingClient = (model: ChatModel): ChatModel => ({
  generate: (request, signal) => model.generate({ ...request, onUnknownUsage() {} }, signal),
});

/** Every turn is billed at its maximum. */
const overchargingClient = (model: ChatModel): ChatModel => ({
  async generate(request, signal) {
    request.onUnknownUsage?.();
    const turn = await model.generate(request, signal);
    return { ...turn, usage: { inputTokens: 0, outputTokens: 0 } };
  },
});

const [RECORD, ANSWERS, UNKNOWN] = Object.keys(apiLaws) as [string, string, string];

const sabotages: [string, readonly string[], Sabotage][] = [
  ["payments that are numbered, but whose sums are not added", [ANSWERS], { store: paying(withoutSums) }],
  ["payments that are never sent", [ANSWERS, UNKNOWN], { store: paying(withoutPaying) }],
  ["payments that are counted twice", [RECORD], { store: paying(payingTwice) }],
  ["answers that are paid for by two payments", [ANSWERS, UNKNOWN], { store: paying(payingInTwoPlaces) }],
  ["answers that are billed at twice their cost", [ANSWERS], { store: paying(raising) }],
  [
    "a client that pays nothing for a response that is cut",
    [UNKNOWN],
    { priced: { faults: FAULTS, client: forgivingClient } },
  ],
  ["a client that pays the maximum for every turn", [ANSWERS], { priced: { client: overchargingClient } }],
];

let reference: Trial;
beforeAll(async () => {
  reference = await runSmallTrial({ isIntact: true, priced: {} });
}, 240_000);

const brokenBy = (trial: Trial) => check({ trial, reference }).map((line) => line.split(": ", 1)[0]);

test("the program itself keeps every law with a priced searcher, even if requests to its API are lost or refused, or its answers are cut, lost or late", {
  timeout: 240_000,
}, async () => {
  expect(check({ trial: reference, reference }), reference.log.join("\n")).toEqual([]);
  expect(reference.runs[0]?.agentsMicroUsd).toBeGreaterThan(0);
  const trial = await runSmallTrial({ isIntact: true, priced: { faults: FAULTS } });
  const met = trial.history.filter(({ channel, fault }) => channel === "api" && fault !== undefined);
  expect(met.map(({ fault }) => fault)).toEqual(FAULTS.map(({ kind }) => kind));
  expect(check({ trial, reference }), trial.log.join("\n")).toEqual([]);
});

test.each(sabotages)("the checker reports %s", async (_what, expected, sabotage) => {
  const trial = await runSmallTrial({ priced: {}, ...sabotage });
  expect(brokenBy(trial), trial.log.join("\n")).toEqual(expect.arrayContaining([...expected]));
});

test("each law is broken by at least one of these sabotages", () => {
  expect(new Set(sabotages.flatMap(([, broken]) => broken))).toEqual(new Set(Object.keys(apiLaws)));
});
