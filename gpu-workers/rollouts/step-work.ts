/** @file One step that this worker samples: the state that claiming and attempts share, and the worker's views of its groups. */
import { agentsBelow } from "../../core/contracts/delegation.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, type StepRecord } from "../../core/contracts/records.ts";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import type { TableItem } from "../../core/ports.ts";
import type { Membership } from "../liveness/membership.ts";
import { type WorkerObserver, workersServing } from "../liveness/observer.ts";
import { whenOpen } from "../liveness/opening.ts";
import type { StepWatch } from "../liveness/watch.ts";
import type { TrajectoryCache } from "../training/trajectories.ts";
import type { RolloutHost } from "./attempt-rollout.ts";
import { type LocalGroupView, newLocalGroupView } from "./local-group-view.ts";

export interface RolloutRole extends Omit<RolloutHost, "hasLiveSubAgents" | "deadSubAgents"> {
  /** The main agent. */
  readonly agent: string;
  readonly membership: Membership;
  readonly watch: StepWatch;
  readonly observer: WorkerObserver;
  readonly trajectories: TrajectoryCache;
  /** Maximum number of rollouts in flight, of all steps. */
  readonly capacity: number;
}

export interface StepWork {
  readonly role: RolloutRole;
  readonly host: RolloutHost;
  readonly step: number;
  /** Agent -> the version that samples this step. */
  readonly versions: StepRecord["policy"];
  /** One per group; a replacement round adds groups. */
  readonly views: LocalGroupView[];
  /** Resolves once every version of the step is published: time limits start then. */
  readonly opened: Promise<unknown>;
  /** Aborts when this worker leaves the step. */
  readonly signal: AbortSignal;
}

export function beginStep(role: RolloutRole, { step, policy, groups }: StepRecord, signal: AbortSignal): StepWork {
  const { main, agents } = role.run.config;
  const subAgents = agentsBelow(agents, main);
  return {
    role,
    host: {
      ...role,
      hasLiveSubAgents: (called = subAgents) =>
        [...called]
          .flatMap((name) => [name, ...agentsBelow(agents, name)])
          .every((name) => workersServing(role.observer, name).length > 0),
      deadSubAgents: () =>
        role.observer
          .workers()
          .flatMap(({ worker, agent, state }) => (state === "dead" && subAgents.includes(agent) ? [worker] : [])),
    },
    step,
    versions: policy,
    views: groups.map((_, index) => newLocalGroupView(index)),
    opened: whenOpen(role.watch, step, role.run.config.staleness, signal),
    signal,
  };
}

/** Whether RUN points to the step: then no other step is training. */
export function isOldest({ role, step }: StepWork): boolean {
  return role.watch.current()?.run.step === step;
}

export function groupAddress({ role, step }: StepWork, { index }: LocalGroupView) {
  return { run: role.run.name, step, group: index };
}

export function rolloutAddress(work: StepWork, view: LocalGroupView, rollout: number): RolloutAddress {
  return { ...groupAddress(work, view), phase: "train", rollout };
}

/** Updates the view from a GROUP record, and aborts attempts that are no longer needed here. */
export function updateView({ role, step }: StepWork, view: LocalGroupView, item: TableItem | undefined): void {
  const me = role.membership.id;
  const isFirstRead = view.record === undefined;
  view.readAt = role.run.store.clock.monotonic();
  view.record = item && parse(GroupRecord, item, `GROUP ${step}/${view.index}`);
  if (!view.record) return;
  const { rollouts, claims = {}, crashes } = view.record;
  const isBegun = Object.values(claims).some((worker) => worker !== me) || hasKeys(rollouts) || hasKeys(crashes);
  if (isFirstRead && isBegun) view.fresh = false;
  for (const [k, attempt] of view.running) {
    // The rollout is scored, or its claim is no longer this worker's.
    if (rollouts[k] || claims[k] !== me) attempt.controller.abort();
  }
}

function hasKeys(record: object): boolean {
  return Object.keys(record).length > 0;
}
