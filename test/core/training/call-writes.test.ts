/** @file A trainer's conditional writes obey the laws of write-laws.ts. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { OptimizerProbe } from "../../../core/contracts/server-optimizer.ts";
import type { TinkerCalls } from "../../../core/contracts/tinker-calls.ts";
import { claimCalls, recordOptimizer, writeCalls, yieldTrainer } from "../../../core/training/call-writes.ts";
import { memoryTable } from "../../fakes/memory-store.ts";
import { sha } from "../../fakes/scripted-team.ts";
import { checkLaws } from "./write-laws.ts";

const calls: TinkerCalls = {
  ...{ server: "http://gpu:8000", session: "s", model: "m", version: sha("version"), from: 3, last: 5 },
  digest: sha("calls"),
};
const probe: OptimizerProbe = {
  ...{ server: "http://gpu:8000", followsEpsilon: true, followsBeta1: false, rise: 0.5, learningRate: 1e-3 },
};
const callsKey = tableKeys.calls("r", "main");
const agentKey = tableKeys.agent("r", "main");
const record = { run: "r", agent: "main", writer: "w1", calls: null };
const agent = { run: "r", agent: "main", version: 4, trainer: "w1", fence: 2, takeovers: 1 };

checkLaws({
  claimCalls: {
    change: () => claimCalls("r", "main", "w2"),
    ...{ key: callsKey, before: record, after: { writer: "w2" }, repeat: "changes nothing", refusedWith: [] },
  },
  "writeCalls, before a call": {
    change: () => writeCalls("r", "main", "w1", calls),
    ...{ key: callsKey, before: record, after: { calls }, repeat: "changes nothing", refusedWith: [{ writer: "w2" }] },
  },
  "writeCalls, after the last call": {
    change: () => writeCalls("r", "main", "w1", null),
    ...{ key: callsKey, before: { ...record, calls }, after: { calls: null }, repeat: "changes nothing" },
    refusedWith: [{ writer: "w2" }],
  },
  recordOptimizer: {
    change: () => recordOptimizer("r", "main", probe),
    ...{ key: agentKey, before: agent, after: { optimizer: probe }, repeat: "changes nothing", refusedWith: [] },
  },
  yieldTrainer: {
    change: () => yieldTrainer("r", "main", "w1"),
    ...{ key: agentKey, before: agent, after: { trainer: "", takeovers: 2 }, repeat: "is refused" },
    refusedWith: [{ trainer: "w2" }, { trainer: "" }],
  },
});

test.each([
  ["claimCalls", callsKey, () => claimCalls("r", "main", "w2")],
  ["recordOptimizer", agentKey, () => recordOptimizer("r", "main", probe)],
] as const)("%s is refused for an item without the attributes of its record", async (_name, key, change) => {
  const table = memoryTable();
  await table.insert(key, { run: "r" });
  expect(await table.update(change())).toEqual({ applied: false, item: { run: "r" } });
});
