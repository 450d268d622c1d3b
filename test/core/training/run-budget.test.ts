/** @file The budget, worked by hand: what counts as spent, when a run is halted, how it is raised, which configs are valid. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RunConfigInput } from "../../../core/contracts/config.ts";
import type { RunRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { NO_API_SPENDING } from "../../../core/training/api-spending.ts";
import {
  haltIfOverBudget,
  overBudgetReason,
  type RaisedBudget,
  raisedLimits,
  spending,
} from "../../../core/training/run-budget.ts";
import { haltForBudget, raiseBudget } from "../../../core/training/writes.ts";
import { runRecord, teamConfig } from "../../fakes/scripted-team.ts";

const HOUR = 3_600_000;
const budget = { hours: 2, usd: 10, usdPerWorkerHour: { main: 4, "*": 1 } };
const config = teamConfig({ budget, liveness: { heartbeatSeconds: 2, leaseSeconds: 10 } });

const runOf = (part: Partial<RunRecord> = {}) => runRecord({ startedAt: HOUR, maxHours: 2, maxUsd: 10, ...part });

/** A worker that has sent this many heartbeats, 2 s apart. */
const workerOf = (agent: string, heartbeats: number, state: WorkerRecord["state"] = "alive"): WorkerRecord => ({
  ...{ run: "test", worker: `${agent}-${heartbeats}`, agent, roles: ["rollout"], url: "", state, release: "1" },
  ...{ counter: heartbeats, seenCounter: heartbeats, seenAt: 0, inFlight: [] },
});

test("spending: hours since the start by the store's clock, and dollars for the heartbeats of live and dead workers at their prices", () => {
  // 1,800 heartbeats, 2 s apart, are an hour. Main 1 h + 0.5 h at $4, searcher 2 h and the evaluator 0.25 h at $1: 6 + 2 + 0.25.
  const workers = [
    workerOf("main", 1800, "dead"),
    workerOf("main", 900),
    workerOf("searcher", 3600, "draining"),
    workerOf("*", 450),
  ];
  expect(spending(config, runOf(), workers, NO_API_SPENDING, 2.5 * HOUR)).toEqual({
    ...{ hours: 1.5, workerHours: 3.75, usd: 8.25 },
    ...NO_API_SPENDING,
  });
  expect(spending(teamConfig(), runOf(), workers, NO_API_SPENDING, HOUR)).toMatchObject({ hours: 0, usd: 0 });
});

test("tools, judges and agents behind APIs count toward the same budget, and the halt's reason lists them", () => {
  // Main 2 h at $4 is $8; $0.50 for tools, $1.20 for judges and $0.30 for agents make it $10.
  const apiSpending = { toolsUsd: 0.5, judgesUsd: 1.2, agentsUsd: 0.3 };
  const workers = [workerOf("main", 3600)];
  expect(spending(config, runOf(), workers, apiSpending, 2 * HOUR)).toMatchObject({ usd: 10, ...apiSpending });
  expect(haltIfOverBudget(config, runOf(), workers, { ...apiSpending, agentsUsd: 0.29 }, 2 * HOUR)).toEqual([]);
  const why =
    "$10.00 of $10 for 2.00 worker hours, $0.50 of tools, $1.20 of judges, $0.30 of agents behind APIs; allow more with --budget-usd <dollars in all>";
  expect(haltIfOverBudget(config, runOf(), workers, apiSpending, 2 * HOUR)).toEqual([
    { kind: "update", change: haltForBudget(runOf(), `its budget is spent: ${why}`) },
  ]);
});

test("a night without live workers costs hours but no dollars", () => {
  const workers = [workerOf("main", 1800, "dead")];
  const [evening, morning] = [3, 11].map((hour) => spending(config, runOf(), workers, NO_API_SPENDING, hour * HOUR));
  expect(morning?.usd).toBe(evening?.usd);
  expect((morning?.hours ?? 0) - (evening?.hours ?? 0)).toBe(8);
});

test("a run is halted at the limit and not before; the reason says what was spent and how to continue", () => {
  expect(haltIfOverBudget(config, runOf(), [], NO_API_SPENDING, 3 * HOUR - 1)).toEqual([]);
  const timeSpent =
    "its budget is spent: 2.00 of 2 hours since it began; allow more with --budget-hours <hours in all>";
  expect(haltIfOverBudget(config, runOf(), [], NO_API_SPENDING, 3 * HOUR)).toEqual([
    { kind: "update", change: haltForBudget(runOf(), timeSpent) },
  ]);
  const overUsd = haltIfOverBudget(config, runOf(), [workerOf("main", 4500)], NO_API_SPENDING, 2 * HOUR);
  const dollarsSpent =
    "its budget is spent: $10.00 of $10 for 2.50 worker hours; allow more with --budget-usd <dollars in all>";
  expect(overUsd).toEqual([{ kind: "update", change: haltForBudget(runOf(), dollarsSpent) }]);
  expect(overBudgetReason(runOf(), { hours: 3, workerHours: 9, usd: 12, ...NO_API_SPENDING })).toMatch(
    /^its budget is spent: 3\.00 of 2 hours since it began and \$12\.00 of \$10 .* --budget-hours <hours in all> and --budget-usd <dollars in all>$/,
  );
  const small = { hours: 0.000_123, workerHours: 0, usd: 0.004_56, ...NO_API_SPENDING };
  expect(overBudgetReason(runOf({ maxHours: 0.0001, maxUsd: 0.004 }), small)).toMatch(
    /^its budget is spent: 0\.00012 of 0\.0001 hours since it began and \$0\.0046 of \$0\.004 /,
  );
  expect(
    haltIfOverBudget(
      config,
      runOf({ maxHours: null, maxUsd: null }),
      [workerOf("main", 1e6)],
      NO_API_SPENDING,
      1e6 * HOUR,
    ),
  ).toEqual([]);
});

test("a large limit is printed in full, a small one to four significant digits", () => {
  const spent = { hours: 1, workerHours: 9, usd: 12_345.6, ...NO_API_SPENDING };
  expect(overBudgetReason(runOf({ maxUsd: 12_345 }), spent)).toMatch(/: \$12345\.60 of \$12345 for 9\.00 worker hours/);
  expect(overBudgetReason(runOf({ maxUsd: 100 }), spent)).toMatch(/ of \$100 for /);
  expect(overBudgetReason(runOf({ maxUsd: 0.0043216 }), spent)).toMatch(/ of \$0\.004322 for /);
  expect(overBudgetReason(runOf({ maxUsd: 0.05 }), { ...spent, usd: 0.1 })).toMatch(/: \$0\.10 of \$0\.05 for /);
});

test("a raised limit is the new total: a repeat changes nothing, a lower or spent one is refused", () => {
  const spent = (hours: number, usd: number) => ({ hours, usd, workerHours: 1, ...NO_API_SPENDING });
  expect(raisedLimits(runOf(), spent(1, 3), { hours: 2.5 })).toEqual({ maxHours: 2.5, maxUsd: 10 });
  expect(raisedLimits(runOf(), spent(14, 3), { hours: 16, usd: 10 })).toEqual({ maxHours: 16, maxUsd: 10 });
  const refused = (hours: number, raised: RaisedBudget, run = runOf()) =>
    expect(() => raisedLimits(run, spent(hours, 3), raised));
  refused(1, { usd: 11 }, runOf({ maxUsd: null })).toThrow("run 'test' has no budget.usd to raise");
  refused(1, { hours: 1.5 }).toThrow(
    "run 'test' already has budget.hours 2: give a higher limit, or leave the option out",
  );
  refused(3, { hours: 2 }).toThrow("run 'test' has already spent 3 of budget.hours=2: give a higher limit");
  const amount = fc.double({ min: 0.01, max: 1000, noNaN: true });
  fc.assert(
    fc.property(amount, amount, amount, amount, (hours, usd, moreHours, moreUsd) => {
      const raised = { hours: Math.max(hours, 2) + moreHours, usd: Math.max(usd, 10) + moreUsd };
      const limits = raisedLimits(runOf(), spent(hours, usd), raised);
      expect(overBudgetReason(limits, spent(hours, usd))).toBeUndefined();
      expect(raisedLimits(runOf(limits), spent(hours, usd), raised)).toEqual(limits);
    }),
  );
});

test("the write of a raised budget has the status and the old limits as its conditions", () => {
  const halted = runOf({ status: "halted", reason: "spent", maxUsd: null });
  expect(raiseBudget(halted, { maxHours: 4, maxUsd: null })).toMatchObject({
    set: [
      [["status"], "running"],
      [["reason"], ""],
      [["maxHours"], 4],
    ],
    when: [{ equals: [["status"], "halted"] }, { equals: [["maxHours"], 2] }],
  });
});

test("a finished run whose budget is raised stays finished", () => {
  const finished = runOf({ status: "finished" });
  expect(raiseBudget(finished, { maxHours: 4, maxUsd: null }).set?.[0]).toEqual([["status"], "finished"]);
});

test.each<[what: string, budget: RunConfigInput["budget"], message: RegExp]>([
  [
    "dollars without prices",
    { usd: 5 },
    /budget\.usd needs a price for every worker: add main, searcher, \* \('\*' sets the price of all others\)/,
  ],
  ["no price for evaluators", { usd: 5, usdPerWorkerHour: { main: 1, searcher: 1 } }, /worker: add \* \(/],
  ["prices without dollars", { usdPerWorkerHour: { "*": 1 } }, /limits nothing without budget\.usd/],
  [
    "a price for an unknown agent",
    { usd: 5, usdPerWorkerHour: { "*": 1, critic: 2 } },
    /there is no agent 'critic': name one of main, searcher, '\*' for all others, or remove it/,
  ],
  ["no time at all", { hours: 0 }, /hours/],
])("a budget with %s is refused", (_what, refused, message) => {
  expect(() => teamConfig({ budget: refused })).toThrow(message);
});

test("a limit in dollars needs a price for everything that is billed per token; a price of 0 is valid", () => {
  const free = { usdPerMillionTokens: { input: 0, output: 0 } };
  const configWith = (searcher: object, judge: object) =>
    teamConfig({
      budget: { usd: 5, usdPerWorkerHour: { "*": 1 } },
      agents: {
        main: { model: "m", delegates: ["searcher"] },
        searcher: { model: "s", policy: "openai", trained: false, ...searcher },
      },
      judge: { model: "openai#judge", ...judge },
    });
  const refusal = (...path: string[]) => {
    const why = expect.stringContaining("budget.usd cannot count these tokens without a price");
    return expect.objectContaining({
      issues: [expect.objectContaining({ path: [...path, "usdPerMillionTokens"], message: why })],
    });
  };
  expect(() => configWith({}, free)).toThrow(refusal("agents", "searcher", "endpoint"));
  expect(() => configWith({ endpoint: free }, {})).toThrow(refusal("judge"));
  expect(configWith({ endpoint: free }, free).budget.usd).toBe(5);
});
