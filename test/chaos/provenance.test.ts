/** @file Which trajectories count as sampled by another version: none of a real run, and any that is changed. */
import { beforeAll, expect, test } from "vitest";
import { Manifest } from "../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { type FinishedOutcome, Outcome, type Trajectory } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { openRun, startWorker } from "../fixtures/relay/world.ts";
import { foreignTrajectories } from "./provenance.ts";

let store: Store;
let config: RunConfig;

beforeAll(async () => {
  const log = createLog(() => {});
  ({ store, config } = await openRun(log, { steps: 2 }));
  const never = new AbortController().signal;
  await Promise.all(["main", "searcher"].map((agent) => startWorker(store, config.run, { agent }, never, log)));
});

const read = async (key: string) => (await store.objects.get(key)) ?? expect.fail(`no ${key}`);

/** The foreign trajectories if this object has other bytes; undefined: it is missing. */
function foreignWith(changed: string, bytes: Uint8Array | undefined): Promise<string[]> {
  const get = async (key: string) => (key === changed ? bytes : store.objects.get(key));
  return foreignTrajectories({ ...store, objects: { ...store.objects, get } }, config);
}

const KEY = objectKeys.outcome({ run: "relay", phase: "train", step: 1, group: 0, rollout: 1 });

/** The foreign trajectories if the main agent's trajectory in this rollout is changed. */
async function foreignAfter(change: (trajectory: Trajectory) => Trajectory): Promise<string[]> {
  const outcome = parseJson(Outcome, await read(KEY), KEY) as FinishedOutcome;
  const trajectory = change(outcome.trajectory as Trajectory);
  return foreignWith(KEY, Buffer.from(JSON.stringify({ ...outcome, trajectory })));
}

test("a run has no foreign trajectories, even if an outcome failed or is missing", async () => {
  expect(await foreignTrajectories(store, config)).toEqual([]);
  const { address, questionId } = parseJson(Outcome, await read(KEY), KEY);
  const failed: Outcome = { status: "failed", address, questionId, reason: "lost" };
  expect(await foreignWith(KEY, Buffer.from(JSON.stringify(failed)))).toEqual([]);
  expect(await foreignWith(KEY, undefined)).toEqual([]);
});

test("a trajectory of a version that its step does not pin is foreign", async () => {
  expect(await foreignAfter((trajectory) => ({ ...trajectory, version: 0 }))).toEqual([
    "relay 1/0/1 main: not the pinned version",
  ]);
});

test.each<[string, (trajectory: Trajectory) => Trajectory]>([
  [
    "a log-prob",
    (one) => ({ ...one, logProbs: one.logProbs.map((logProb, i) => (i === 1 ? logProb - 0.01 : logProb)) }),
  ],
  [
    "a sampled token",
    (one) => ({ ...one, tokens: one.tokens.map((token, t) => (t === one.actions[0]?.[0] ? token + 1 : token)) }),
  ],
  ["the number of log-probs", (one) => ({ ...one, logProbs: one.logProbs.slice(1) })],
  [
    "the position of the actions",
    (one) => ({ ...one, actions: one.actions.map(([start, end]) => [start - 1, end - 1]) }),
  ],
])("a trajectory that differs in %s is foreign", async (_what, change) => {
  expect(await foreignAfter(change)).toEqual(["relay 1/0/1 main: other weights"]);
});

test("if the weights of a version differ or are missing, its trajectories are foreign, and no others", async () => {
  const hashOf = async (version: number) => {
    const key = objectKeys.manifest("relay", "main", version);
    return parseJson(Manifest, await read(key), key).files["model.safetensors"]?.sha256 ?? "";
  };
  const base = await read(objectKeys.part("relay", await hashOf(0)));
  const found = await foreignWith(objectKeys.part("relay", await hashOf(1)), base);
  expect(found).toEqual(["0/0", "0/1", "1/0", "1/1"].map((rollout) => `relay 1/${rollout} main: other weights`));
  expect(await foreignWith(objectKeys.part("relay", await hashOf(1)), undefined)).toEqual(found);
});
