/** @file What every function works with: the store, the recipe's rewards, the caches of this process, and the deployment, if there is one. */
import { setMaxListeners } from "node:events";
import type { RunConfig } from "../core/contracts/config.ts";
import { type Deployment, parseDeployment } from "../core/contracts/deployment.ts";
import { tableKeys } from "../core/contracts/keys.ts";
import type { GroupRecord } from "../core/contracts/records.ts";
import type { Controls, Rewards, Store } from "../core/ports.ts";
import { ScoreRecorder, ScoringQueue } from "./pending-scores.ts";
import { Records } from "./records.ts";
import { openRunObjects, type RunObjects } from "./run-objects.ts";

export interface FunctionOptions {
  /** Opens the rewards of a run's recipe. */
  readonly rewardsOf: (config: RunConfig) => Promise<Rewards>;
  /**
   * True for one process that receives all events for hours (the embedded cloud): its scheduled ticks look for missed outcomes only in
   * groups without progress since the last check. A Lambda instance may have made no check before, so it looks in every group.
   */
  readonly isLongLived?: boolean;
  /** Opens what a deployment lets its functions change. Called only if the table belongs to a deployment. Absent: they change nothing. */
  readonly controlsOf?: (deployment: Deployment) => Controls;
}

export interface Context extends Store {
  readonly rewardsOf: FunctionOptions["rewardsOf"];
  readonly controlsOf: FunctionOptions["controlsOf"];
  readonly runObjects: RunObjects;
  readonly records: Records;
  readonly scoreRecorder: ScoreRecorder;
  readonly scoringQueue: ScoringQueue;
  /** Aborts when the process stops, which ends all waits for verdicts. */
  readonly stop: AbortSignal;
  readonly stopAsking: () => void;
  /** Whether a scheduled tick should look for missed outcomes of this open group. */
  readonly hasStalled: (group: GroupRecord) => boolean;
}

export function openContext(
  { objects, table, clock }: Store,
  { rewardsOf, controlsOf, isLongLived = false }: FunctionOptions,
): Context {
  const stopping = new AbortController();
  // Every pending judge request adds a listener.
  setMaxListeners(0, stopping.signal);
  return {
    objects,
    table,
    clock,
    rewardsOf,
    controlsOf,
    runObjects: openRunObjects({ objects, table }),
    records: new Records(table),
    scoreRecorder: new ScoreRecorder(table),
    scoringQueue: new ScoringQueue(),
    stop: stopping.signal,
    stopAsking: () => stopping.abort(),
    hasStalled: isLongLived ? openStalledGroupCheck() : () => true,
  };
}

/** At least as many as the steps of a run that may be open at once: `staleness` is at most 16. */
const OPEN_STEPS = 32;

/** A group has stalled when it has no more scores than at the last check. A step takes the place of an older one, so a run's memory stays bounded. */
function openStalledGroupCheck(): Context["hasStalled"] {
  const lastSeen = new Map<string, string>();
  return ({ run, step, group, rollouts }) => {
    const name = `${run}/${step % OPEN_STEPS}/${group}`;
    const before = lastSeen.get(name);
    const current = `${step}/${Object.keys(rollouts).length}`;
    lastSeen.set(name, current);
    return before === current;
  };
}

/** The deployment that the table belongs to, and what the functions may change in it. */
export interface ControlledDeployment extends Deployment, Controls {}

/** Reads the deployment on every call, since it may have changed. Undefined without `controlsOf`, or if the table belongs to none, as on a laptop. */
export async function readControlledDeployment({
  table,
  controlsOf,
}: Pick<Context, "table" | "controlsOf">): Promise<ControlledDeployment | undefined> {
  const deployment = parseDeployment(await table.get(tableKeys.deployment));
  return deployment && controlsOf && { ...deployment, ...controlsOf(deployment) };
}
