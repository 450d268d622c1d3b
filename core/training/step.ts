/**
 * @file The protocol of a step as a reducer: what is there -> what to do next. Tick reads a snapshot, executes the commands,
 * and looks again until there are none.
 *
 *     (none) ──plan──> open ──all groups finalized, rounds over──> ready ──manifest v+1 of every trained agent──> closed ──> step + 1
 *
 *     open    waits for score-rollout to finalize its groups    unblocked by outcomes, or by give-up
 *     ready   waits for the trainers                        unblocked by manifests
 *             meanwhile: evaluation jobs of the team before, retention, and the next step's plan, last, as the mark that all is done
 *     closed  waits for nobody: team manifest, then RUN.step moves on; that write is the last (the last step also does the above)
 *
 * A plan needs only the step before it, finalized. Workers whose own agent is done with step s begin with STEP s+1 as soon as it is planned
 * (gpu-workers/liveness/opening.ts); for tick it begins when RUN points there.
 */
import type { Manifest, TeamManifest } from "../contracts/checkpoint.ts";
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys, tableKeys } from "../contracts/keys.ts";
import type { Question } from "../contracts/question.ts";
import type { AgentRecord, GroupRecord, RunRecord, StepRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import { type Command, change, insert, together } from "./commands.ts";
import { giveUp } from "./give-up.ts";
import { tooManyLost } from "./losses.ts";
import { groupItems, isLast, planStep, policyAt, replaceZeroVarianceGroups, tokensOf } from "./plan.ts";
import { expiredParts } from "./retention.ts";
import { advanceAgent, advanceRun, endRun, moveStep } from "./writes.ts";

/** A manifest as it lies in the store. */
export interface StoredManifest {
  readonly manifest: Manifest;
  readonly sha256: string;
}

/** What is there, of one running run. */
export interface Snapshot {
  readonly config: RunConfig;
  readonly questions: readonly Question[];
  readonly run: RunRecord;
  /** STEP of RUN.step; undefined before it is planned, and after the last one. */
  readonly step: StepRecord | undefined;
  /** STEP before it. Needed only while `step` is undefined. */
  readonly previous: StepRecord | undefined;
  /** Whether STEP after it is planned already. Needed once the step is ready. */
  readonly planned: boolean;
  /** Groups of the step by index, undefined where the item is missing. Needed while it is open, once none of them is open. */
  readonly groups: readonly (GroupRecord | undefined)[];
  /** Groups of the nine steps before. Needed only when this step lost rollouts. */
  readonly earlier: readonly GroupRecord[];
  /** The newest manifest of each agent after this step, where there is one. Needed once the step is ready. */
  readonly manifests: ReadonlyMap<string, StoredManifest>;
  /** AGENT records, read when some manifest is new. */
  readonly agents: readonly AgentRecord[];
  /** Per agent, a version that is no longer kept, and the manifests that may share its parts. Needed until the next step is planned. */
  readonly expired: readonly { readonly manifest: Manifest; readonly kept: readonly Manifest[] }[];
}

export function advance(snapshot: Snapshot): Command[] {
  const { config, run, step, previous } = snapshot;
  if (run.status !== "running") return [];
  if (!step && previous && isLast(config, previous)) {
    return [...settleTeam(snapshot, true), change(endRun(run.run, "finished", ""))];
  }
  if (!step) return [plan(snapshot, run.step, previous)];
  if (step.state === "open") return advanceOpen(snapshot, step);
  if (step.state === "ready") return advanceReady(snapshot, step);
  return closeStep(snapshot, step);
}

function advanceOpen({ config, questions, run, groups, earlier }: Snapshot, step: StepRecord): Command[] {
  const missing = missingGroups(config, step, groups);
  if (missing.length > 0) return missing;
  const present = groups.flatMap((group) => group ?? []);
  if (present.some(({ state }) => state !== "finalized")) return [];
  const replacements = replaceZeroVarianceGroups(config, questions, step, present);
  if (replacements.length > 0) return replacements;
  const ready = change(moveStep({ ...step, sampledTokens: tokensOf(present) }, "ready"));
  const reason = tooManyLost(config, [...earlier, ...present]);
  // Halted first: were it the other way round, a crash between the two would lose the halt. A resumed run finds the step ready.
  return reason === undefined ? [ready] : [change(endRun(run.run, "halted", reason)), ready];
}

/** What the clock finds wanting in an open step: groups whose insertion was cut short, rollouts that will not end. */
export function repairOpen(config: RunConfig, step: StepRecord, groups: Snapshot["groups"]): Command[] {
  const present = groups.flatMap((group) => group ?? []);
  return [...missingGroups(config, step, groups), ...giveUp(config, present)];
}

function missingGroups(config: RunConfig, step: StepRecord, groups: Snapshot["groups"]): Command[] {
  const missing = step.groups.flatMap((_, g) => (groups[g] ? [] : [g]));
  return missing.length > 0 ? [insert(...groupItems(config, step, missing))] : [];
}

/** STEP and its groups. The plan is the same whoever makes it, so it does not matter which of these items comes to be first. */
function plan({ config, questions, run }: Snapshot, step: number, previous: StepRecord | undefined): Command {
  const planned = planStep(config, questions, step, previous);
  const groups = groupItems(config, planned, [...planned.groups.keys()]);
  return insert(...groups, { key: tableKeys.step(run.run, step), item: planned });
}

/** What follows from the team that RUN points at and nobody waits for: its evaluations, and weights that nobody needs any more. */
function settleTeam({ run, expired }: Snapshot, last: boolean): Command[] {
  const garbage = expired.flatMap(({ manifest, kept }) => expiredParts(manifest, kept));
  return together([
    { kind: "enqueue", key: objectKeys.team(run.run, run.step), last },
    ...(garbage.length > 0 ? [{ kind: "delete", keys: garbage } as const] : []),
  ]);
}

function advanceReady(snapshot: Snapshot, step: StepRecord): Command[] {
  const { config, manifests, agents, planned } = snapshot;
  if (!planned && !isLast(config, step)) return [...settleTeam(snapshot, false), plan(snapshot, step.step + 1, step)];
  const behind = agents.filter(({ agent, version }) => manifests.get(agent)?.manifest.version === version + 1);
  const caches = together(behind.map((agent) => change(advanceAgent(agent))));
  if (!step.trained.every((agent) => manifests.has(agent))) return caches;
  // All in one look: the next rollouts wait for the last of it. Cut short, it is gone on with from the closed step.
  return [...caches, change(moveStep(step, "closed")), ...closeStep(snapshot, step)];
}

function closeStep(snapshot: Snapshot, step: StepRecord): Command[] {
  const { config, run, manifests, planned } = snapshot;
  const key = objectKeys.team(run.run, step.step + 1);
  return [
    // The last step has no next one to mark that this is done.
    ...(planned ? [] : settleTeam(snapshot, false)),
    { kind: "commit", key, record: teamManifest(config, step.step + 1, manifests) },
    change(advanceRun(run)),
  ];
}

/** The team after `team` closed steps. `manifests` holds each agent's manifest of that team. */
export function teamManifest(
  config: RunConfig,
  team: number,
  manifests: ReadonlyMap<string, Pick<StoredManifest, "sha256">>,
): TeamManifest {
  const agents = Object.entries(policyAt(config, team)).map(([agent, version]) => {
    const manifest = objectKeys.manifest(config.run, agent, version);
    const sha256 = manifests.get(agent)?.sha256;
    if (sha256 === undefined)
      throw new MgrpoError("record-damaged", `${config.run}: there is no ${manifest}, which team ${team} needs`);
    return [agent, { version, manifest, sha256 }] as const;
  });
  return { run: config.run, team, agents: Object.fromEntries(agents) };
}
