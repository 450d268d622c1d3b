/** @file One outcome of a run in a memory store, for tests of its scoring. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";
import type { Rewards } from "../../core/ports.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import type { memoryStore } from "../fakes/memory-store.ts";
import { bytes, conversationOf, prepare, rewards, sha } from "../fakes/scripted-team.ts";

const address = { run: "test", phase: "train", step: 0, group: 0, rollout: 0 };
export const key = objectKeys.outcome(address);

type MemoryStore = ReturnType<typeof memoryStore>;

export async function started(
  store: MemoryStore,
  config: RunConfig,
  judge: Rewards | (() => Promise<Rewards>) = rewards,
) {
  const rewardsOf = typeof judge === "function" ? judge : async () => judge;
  const functions = openFunctions(openContext(store, { rewardsOf }));
  await functions.startRun(await prepare(store.objects, config));
  const step = StepRecord.parse(await store.table.get(tableKeys.step(config.run, 0)));
  const group = async () => GroupRecord.parse(await store.table.get(tableKeys.group(config.run, 0, 0)));
  return { functions, step, group };
}

/** Commits an outcome of rollout 0/0/0 with one invocation, which is not stored if `isInvocationMissing`. */
export async function commitOutcome(
  store: MemoryStore,
  step: StepRecord,
  change: { sub?: object; outcome?: object; isInvocationMissing?: boolean } = {},
) {
  const questionId = step.groups[0] ?? "";
  const id = "a".repeat(22);
  const invocation = {
    ...{ id, conversation: conversationOf("look!", "found") },
    request: {
      ...{ address, questionId, agent: "searcher", version: 0, call: 0, task: "look!", closedBook: false },
      sampling: { temperature: 1, topP: 1, topK: 0 },
    },
    trajectory: { agent: "searcher", version: 0, tokens: [1], actions: [], logProbs: [] },
    ...change.sub,
  };
  const at = objectKeys.invocation("test", 0, id);
  if (!change.isInvocationMissing) await store.objects.commit(at, bytes(invocation));
  const outcome: Outcome = {
    ...{ status: "finished", address, questionId, conversation: conversationOf("?", questionId.slice(1)) },
    trajectory: { agent: "main", version: 0, tokens: [1, 2, 3], actions: [[1, 3]], logProbs: [-1, -2] },
    invocations: [{ id, agent: "searcher", key: at, sha256: sha(bytes(invocation)) }],
    ...change.outcome,
  };
  await store.objects.commit(key, bytes(outcome));
}

/** Stops the store's clock. Returns a function that moves it by seconds. */
export function stopClock(store: MemoryStore) {
  let now = Date.now();
  store.clock.storeTime = async () => now;
  return (seconds: number) => {
    now += seconds * 1000;
  };
}
