/**
 * @file The protocol of a step as a pure function: snapshot -> commands. Tick reads a snapshot, executes the commands, and repeats until there are
 * none.
 *
 *     (none) ──plan──> open ──groups finalized, none to replace──> ready ──manifest s+1 of every trained agent──> closed ──> RUN at s + 1
 *
 *     open    waits for score-rollout to finalize its groups    unblocked by outcomes, or by abandonment
 *     ready   waits for RUN to point to it, then for trainers   unblocked by manifests
 *             meanwhile: evaluation jobs of team RUN.step, retention, then the plan of step s+n+1, whose record says that both are done
 *     closed  waits for nothing: team manifest, then RUN.step + 1 as the last write. If there is no step s+n+1 to plan, the evaluation jobs
 *             and retention come before these
 *
 * n is `staleness`. Steps RUN.step to RUN.step + n are in flight: their rollouts run side by side, each step's from the versions in its record,
 * all of which exist. They become ready in any order and close in order, so no step trains on rollouts more than n versions old.
 *
 * Step s+n+1 is planned without waiting for version s+1. Workers begin it as soon as they have their own agent's version
 * (gpu-workers/liveness/opening.ts). Tick advances it only once it is in flight.
 */
import type { Manifest, TeamManifest } from "../contracts/checkpoint.ts";
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys, tableKeys } from "../contracts/keys.ts";
import type { Question } from "../contracts/question.ts";
import type { AgentRecord, GroupRecord, RunRecord, StepRecord } from "../contracts/records.ts";
import { ownerOf } from "../contracts/shared-policy.ts";
import { MgrpoError } from "../errors.ts";
import { abandonRollouts } from "./abandon-rollouts.ts";
import { tooManyLostReason } from "./lost-rollouts.ts";
import { expiredParts } from "./retention.ts";
import {
  countSampledTokens,
  groupItems,
  type PlanBasis,
  planStep,
  policyAt,
  replaceZeroVarianceGroups,
} from "./step-plan.ts";
import { insert, parallel, type StoreCommand, update } from "./store-commands.ts";
import { advanceAgent, advanceRun, endRun, haltForLosses, moveStep } from "./writes.ts";

/** A manifest, and the SHA-256 of its object. */
export interface StoredManifest {
  readonly manifest: Manifest;
  readonly sha256: string;
}

/** What tick has read of a running run. Fields that its state does not need are empty. */
export interface StepSnapshot {
  readonly config: RunConfig;
  readonly questions: readonly Question[];
  readonly run: RunRecord;
  /** The steps in flight, from RUN.step on: `staleness` + 1 of them, fewer before they are planned and at the end of the run. */
  readonly steps: readonly StepRecord[];
  /** Whether the step after those in flight is planned. Needed once the first is ready. */
  readonly planned: boolean;
  /** The steps that the next plan is computed from. */
  readonly basis: PlanBasis;
  /** By step: the groups of each open step that has no open group left. */
  readonly complete: ReadonlyMap<number, CompleteGroups>;
  /** Each agent's manifest at the end of `steps[0]`, if it is published. Needed once the step is ready. */
  readonly manifests: ReadonlyMap<string, StoredManifest>;
  /** AGENT records. Needed once a manifest is published. */
  readonly agents: readonly AgentRecord[];
  /** Per trained agent, the version whose weights can be deleted, if there is one. Needed until the next step is planned. */
  readonly expired: readonly ExpiredManifest[];
}

export interface CompleteGroups {
  /** By index, undefined if the item is missing. */
  readonly groups: readonly (GroupRecord | undefined)[];
  /** Groups of the earlier steps in the window of lost-rollouts.ts. Needed if this step lost rollouts. */
  readonly earlier: readonly GroupRecord[];
}

export interface ExpiredManifest {
  readonly manifest: Manifest;
  /** Manifests that may share its parts. */
  readonly kept: readonly Manifest[];
}

export function advance(snapshot: StepSnapshot): StoreCommand[] {
  const { config, run, steps } = snapshot;
  if (run.status !== "running") return [];
  const next = nextPlan(snapshot);
  const [first] = steps;
  if (next)
    return [
      ...(next.step > run.step + config.staleness ? evaluateAndPrune(snapshot, false) : []),
      insertPlan(snapshot, next),
    ];
  if (!first) return [...evaluateAndPrune(snapshot, true), update(endRun(run.run, "finished"))];
  const opened = steps.filter(({ state }) => state === "open").flatMap((step) => advanceOpen(snapshot, step));
  if (first.state === "open") return opened;
  return [...opened, ...(first.state === "ready" ? advanceReady(snapshot, first) : closeStep(snapshot, first))];
}

/** The step to plan now, if any. */
function nextPlan({ config, questions, run, steps, planned, basis }: StepSnapshot): StepRecord | undefined {
  const step = run.step + steps.length;
  const isDue = steps.length <= config.staleness || (!planned && steps[0]?.state !== "open");
  return isDue ? planStep(config, questions, step, basis) : undefined;
}

function advanceOpen({ config, questions, run, complete }: StepSnapshot, step: StepRecord): StoreCommand[] {
  const found = complete.get(step.step);
  if (!found) return [];
  const { groups, earlier } = found;
  const missing = missingGroups(config, step, groups);
  if (missing.length > 0) return missing;
  const present = groups.flatMap((group) => group ?? []);
  if (present.some(({ state }) => state !== "finalized")) return [];
  const replacements = replaceZeroVarianceGroups(config, questions, step, present);
  if (replacements.length > 0) return replacements;
  const ready = update(moveStep({ ...step, sampledTokens: countSampledTokens(present) }, "ready"));
  const { lossesFrom = 0 } = run;
  const reason = tooManyLostReason(
    config,
    [...earlier, ...present].filter((group) => group.step >= lossesFrom),
  );
  // Halt first: in the other order, a crash in between would lose the halt. A resumed run makes the step ready.
  return reason === undefined ? [ready] : [update(haltForLosses(run.run, step.step, reason)), ready];
}

/**
 * What a scheduled tick repairs in an open step: groups that an interrupted tick did not insert, and rollouts that keep crashing their
 * workers.
 */
export function repairOpen(config: RunConfig, step: StepRecord, groups: CompleteGroups["groups"]): StoreCommand[] {
  const present = groups.flatMap((group) => group ?? []);
  return [...missingGroups(config, step, groups), ...abandonRollouts(config, present)];
}

function missingGroups(config: RunConfig, step: StepRecord, groups: CompleteGroups["groups"]): StoreCommand[] {
  const missing = step.groups.flatMap((_, g) => (groups[g] ? [] : [g]));
  return missing.length > 0 ? [insert(...groupItems(config, step, missing))] : [];
}

/**
 * Inserts STEP, then its groups. Many ticks may plan the step at the same time, and compute the same records: only the one that inserts STEP
 * goes on to the groups. If it dies before they are all inserted, `missingGroups` inserts the rest once the step is in flight.
 */
function insertPlan({ config, run }: StepSnapshot, step: StepRecord): StoreCommand {
  const first = { key: tableKeys.step(run.run, step.step), item: step };
  return { kind: "insert-first", first, rest: groupItems(config, step, [...step.groups.keys()]) };
}

/** Queues the evaluations of the team that RUN points to and deletes expired weights. */
function evaluateAndPrune({ run, expired }: StepSnapshot, isLastTeam: boolean): StoreCommand[] {
  const garbage = expired.flatMap(({ manifest, kept }) => expiredParts(manifest, kept));
  return parallel([
    { kind: "enqueue", key: objectKeys.team(run.run, run.step), isLast: isLastTeam },
    ...(garbage.length > 0 ? [{ kind: "delete", keys: garbage } as const] : []),
  ]);
}

function advanceReady(snapshot: StepSnapshot, step: StepRecord): StoreCommand[] {
  const { manifests, agents } = snapshot;
  const behind = agents.filter(({ agent, version }) => manifests.get(agent)?.manifest.version === version + 1);
  const agentUpdates = parallel(behind.map((agent) => update(advanceAgent(agent))));
  if (!step.trained.every((agent) => manifests.has(agent))) return agentUpdates;
  // All in one tick, since workers wait for the last of these writes. After an interruption, the next tick continues from the closed step.
  return [...agentUpdates, update(moveStep(step, "closed")), ...closeStep(snapshot, step)];
}

function closeStep(snapshot: StepSnapshot, step: StepRecord): StoreCommand[] {
  const { config, run, manifests, planned } = snapshot;
  const key = objectKeys.team(run.run, step.step + 1);
  return [
    // The last n + 1 steps have no successor whose plan would do this, so it is done here.
    ...(planned ? [] : evaluateAndPrune(snapshot, false)),
    { kind: "commit", key, record: teamManifest(config, step.step + 1, manifests) },
    update(advanceRun(run)),
  ];
}

/** The team after `team` closed steps. `manifests`: of each agent with a policy of its own, the manifest in that team. */
export function teamManifest(
  config: RunConfig,
  team: number,
  manifests: ReadonlyMap<string, Pick<StoredManifest, "sha256">>,
): TeamManifest {
  const agents = Object.entries(policyAt(config, team)).map(([agent, version]) => {
    const owner = ownerOf(config.agents, agent);
    const manifest = objectKeys.manifest(config.run, owner, version);
    const sha256 = manifests.get(owner)?.sha256;
    if (sha256 === undefined)
      throw new MgrpoError("record-damaged", `${config.run}: there is no ${manifest}, which team ${team} needs`);
    return [agent, { version, manifest, sha256 }] as const;
  });
  return { run: config.run, team, agents: Object.fromEntries(agents) };
}
