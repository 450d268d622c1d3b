/**
 * @file Whether every token that was trained on was sampled by the version that its record names, and that its step pins: the relay's
 * log-probs are a function of weights, position and token, so they can be computed again.
 */
import { Manifest } from "../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { type AnyTrajectory, Invocation, mainTrajectories, Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { logProb } from "../fixtures/relay/policy.ts";

type Objects = Pick<Store["objects"], "get">;

/** Names the trajectories of a run that another version sampled, each with the reason. */
export async function foreignTrajectories({ table, objects }: Store, config: RunConfig): Promise<string[]> {
  const { run, rolloutsPerQuestion: K } = config;
  const record = RunRecord.parse(await table.get(tableKeys.run(run)));
  const foreign: string[] = [];
  for (let step = 0; step < record.step; step++) {
    const plan = StepRecord.parse(await table.get(tableKeys.step(run, step)));
    for (const group of plan.groups.keys()) {
      for (let rollout = 0; rollout < K; rollout++) {
        const address = { run, phase: "train", step, group, rollout } as const;
        for (const trajectory of await trajectoriesOf(objects, address)) {
          const name = `${run} ${step}/${group}/${rollout} ${trajectory.agent}`;
          if (trajectory.version !== plan.policy[trajectory.agent]) foreign.push(`${name}: not the pinned version`);
          else if (isFrozenApi(config, trajectory)) continue;
          else if (!(await isSampledBy(objects, run, trajectory))) foreign.push(`${name}: other weights`);
        }
      }
    }
  }
  return foreign;
}

/** An API returns no tokens to check. */
const isFrozenApi = ({ agents }: RunConfig, { agent }: AnyTrajectory) => isEndpointPolicy(agents[agent]?.policy ?? "");

async function trajectoriesOf(objects: Objects, address: Outcome["address"]): Promise<AnyTrajectory[]> {
  const key = objectKeys.outcome(address);
  const bytes = await objects.get(key);
  if (!bytes) return [];
  const outcome = parseJson(Outcome, bytes, key);
  if (outcome.status === "failed") return [];
  const invocations = await Promise.all(
    outcome.invocations.map(async (ref) => parseJson(Invocation, (await objects.get(ref.key)) ?? "", ref.key)),
  );
  return [...mainTrajectories(outcome), ...invocations.map(({ trajectory }) => trajectory)];
}

async function isSampledBy(objects: Objects, run: string, trajectory: AnyTrajectory): Promise<boolean> {
  if (!("actions" in trajectory)) return false;
  const { agent, version, tokens, actions, logProbs } = trajectory;
  const key = objectKeys.manifest(run, agent, version);
  const manifest = parseJson(Manifest, (await objects.get(key)) ?? "", key);
  const weights = await objects.get(objectKeys.part(run, manifest.files["model.safetensors"]?.sha256 ?? ""));
  if (!weights) return false;
  const positions = actions.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i));
  return (
    positions.length === logProbs.length &&
    positions.every((t, i) => logProb(weights, t, tokens[t] ?? -1) === logProbs[i])
  );
}
