/**
 * @file The main agent's rollouts (design rows 2 to 4): as many conversations in flight as there is room for, claimed several at a
 * time, each ending in one committed outcome.
 *
 *     a step   waits for: STEP open, or the next one's turn (liveness/opening.ts)   unblocked by: tick
 *     a claim  waits for: room, and a live worker of each sub-agent
 *     a round  waits for: an attempt's end, STEP moving on, or the next look at the groups of others
 *
 * Claims of dead workers are suspects: they run when no other rollout does, one at a time, named in WORKER.inFlight meanwhile.
 */
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, type StepRecord } from "../../core/contracts/records.ts";
import type { Outcome, RolloutAddress } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { TableItem } from "../../core/ports.ts";
import { POISON_CRASHES } from "../../core/training/give-up.ts";
import { claimRollouts, claimUnbegun, releaseClaim } from "../../core/training/writes.ts";
import { sha256 } from "../../engine/hash.ts";
import { haltedBy } from "../halt.ts";
import { recordBytes } from "../identity.ts";
import { workersServing } from "../invocations/worker-pool.ts";
import type { Membership } from "../liveness/membership.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import { stepToSample, whenOpen } from "../liveness/opening.ts";
import type { RunSnapshot, StepWatch } from "../liveness/watch.ts";
import { inParallel } from "../parallel.ts";
import type { TrajectoryCache } from "../training/trajectories.ts";
import { takeable } from "./claims.ts";
import { dueViews, type GroupView, inTurn, newGroupView } from "./group-view.ts";
import { attemptRollout, type Team } from "./roll-out.ts";

export interface RolloutRole extends Omit<Team, "complete"> {
  readonly membership: Membership;
  readonly watch: StepWatch;
  readonly observer: WorkerObserver;
  readonly trajectories: TrajectoryCache;
  /** Conversations in flight at most. */
  readonly capacity: number;
}

/** Works on step after step until the signal aborts; then rejects with `cancelled`, its claims given back. */
export async function runRollouts(role: RolloutRole, signal: AbortSignal): Promise<void> {
  for (;;) {
    const step = await role.watch.until(stepToSample, signal);
    await workOnStep(role, step, signal);
  }
}

async function workOnStep(role: RolloutRole, first: StepRecord, stop: AbortSignal): Promise<void> {
  const { run, membership, watch, observer, agent } = role;
  const { table, objects, clock } = run.store;
  const { pollSeconds, leaseSeconds } = run.config.liveness;
  const over = new AbortController();
  const signal = AbortSignal.any([stop, over.signal]);
  const views = first.groups.map(newGroupView);
  const opened = whenOpen(watch, first.step, signal);
  const isEarly = () => watch.current()?.run.step !== first.step;
  if (isEarly())
    opened.then(
      () => wake.abort(),
      () => {},
    );
  const team: Team = {
    ...role,
    complete: () => agent.config.delegates.every((name) => workersServing(observer, name).length > 0),
  };
  let inFlight = 0;
  let alone = false;
  let pace = pollSeconds;
  let wake = new AbortController();
  let broken: { error: unknown } | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  const peers = observer.workers();

  const groupAddress = (group: number) => ({ run: run.name, step: first.step, group });
  const addressOf = (group: number, rollout: number): RolloutAddress => {
    return { ...groupAddress(group), phase: "train", rollout };
  };

  async function read(group: number, view: GroupView) {
    see(group, view, await table.get(tableKeys.group(run.name, first.step, group)));
  }

  function see(group: number, view: GroupView, item: TableItem | undefined) {
    view.readAt = clock.monotonic();
    const known = view.record !== undefined;
    view.record = item && parse(GroupRecord, item, `GROUP ${first.step}/${group}`);
    if (!view.record) return;
    const { rollouts, claims = {}, crashes } = view.record;
    const others = Object.values(claims).filter((worker) => worker !== membership.id);
    if (!known && others.length + Object.keys({ ...rollouts, ...crashes }).length > 0) view.fresh = false;
    for (const [k, attempt] of view.running) {
      // Decided, or claimed by another: whatever this attempt finds out would not count.
      if (rollouts[k] || claims[k] !== membership.id) attempt.controller.abort();
    }
  }

  /** Adds an attempt that this worker has claimed. */
  function start(group: number, k: number, view: GroupView, isAlone: boolean) {
    const controller = new AbortController();
    view.mine.add(k);
    inFlight += 1;
    const done = settle(group, k, view, isAlone, AbortSignal.any([signal, controller.signal]))
      .catch((error: unknown) => {
        broken ??= { error };
      })
      .finally(() => {
        view.running.delete(k);
        inFlight -= 1;
        wake.abort();
      });
    view.running.set(k, { controller, done });
  }

  async function settle(group: number, k: number, view: GroupView, isAlone: boolean, aborted: AbortSignal) {
    const address = addressOf(group, k);
    const question = run.question(view.record?.questionId ?? "");
    const sampling = { temperature: run.config.temperature, topP: 1, topK: 0 };
    const purpose = [run.config.seed, "sample"];
    const plan = { address, question, versions: first.policy, sampling, purpose, closedBook: false, opened };
    if (isAlone) await membership.setInFlight([`${first.step}/${group}/${k}`]);
    try {
      const mustIsolate = ({ code }: MgrpoError) => code === "worker-unavailable" && !isAlone;
      await commit(await attemptRollout(team, plan, aborted, (error) => !mustIsolate(error)));
    } catch (error) {
      if (isMgrpoError(error, "worker-unavailable")) view.lonely.add(k);
      else {
        if (!isMgrpoError(error, "cancelled", "step-closed")) {
          // This process ends of it; where it ran alone, it stays named as that and is counted.
          if (!(await haltedBy(run, error))) throw error;
          await watch.refresh();
        }
        await release(group, k, view);
        view.mine.delete(k);
      }
    }
    if (isAlone) {
      alone = false;
      await membership.setInFlight([]);
    }
  }

  async function release(group: number, k: number, view: GroupView) {
    see(group, view, (await table.update(releaseClaim(groupAddress(group), k, membership.id))).item);
  }

  async function commit(outcome: Outcome) {
    const key = objectKeys.outcome(outcome.address);
    const bytes = recordBytes(outcome);
    const won = await objects.commit(key, bytes);
    if (won && outcome.status === "finished")
      role.trajectories.put(first.step, key, outcome.trajectory, digestOf(sha256(bytes)));
    if (outcome.status === "failed") run.log.warn("rollout given up", { key, reason: outcome.reason });
    watch.expectChange();
  }

  /** Drops rollouts whose outcome is there already: the outcome object decides, not the claim. */
  async function withoutOutcome(group: number, view: GroupView, candidates: readonly number[]): Promise<number[]> {
    if (view.fresh) return [...candidates];
    const found = await Promise.all(candidates.map((k) => objects.head(objectKeys.outcome(addressOf(group, k)))));
    for (const [i, k] of candidates.entries()) if (found[i] !== undefined) view.mine.add(k);
    return candidates.filter((_, i) => found[i] === undefined);
  }

  async function claim(group: number, view: GroupView, wanted: readonly number[]) {
    const rollouts = await withoutOutcome(group, view, wanted);
    if (rollouts.length === 0) return;
    const write = view.record?.claims ? claimRollouts : claimUnbegun;
    const { applied, item } = await table.update(write(groupAddress(group), rollouts, membership.id));
    see(group, view, item);
    if (applied) for (const k of rollouts) start(group, k, view, false);
  }

  /** Claims in a group that this process never looked at: most likely nobody else did either, and a look is saved. */
  async function claimUnseen(group: number, view: GroupView, wanted: readonly number[]) {
    const { applied, item } = await table.update(claimUnbegun(groupAddress(group), wanted, membership.id));
    see(group, view, item);
    if (applied) for (const k of await withoutOutcome(group, view, wanted)) start(group, k, view, false);
  }

  /** Starts one suspect. Waits for: no other rollout in flight here. */
  async function takeSuspect(group: number, view: GroupView, k: number, dead: string) {
    if ((await withoutOutcome(group, view, [k])).length === 0) return;
    const taking = claimRollouts(groupAddress(group), [k], membership.id, new Map([[k, dead]]));
    const { applied, item } = await table.update(taking);
    see(group, view, item);
    if (!applied) return;
    const crashes = view.record?.crashes[k] ?? 0;
    if (crashes >= Math.min(POISON_CRASHES, run.config.limits.attempts)) {
      const reason = `infrastructure: its worker crashed ${crashes} times while it ran alone`;
      view.mine.add(k);
      await commit({
        status: "failed",
        address: addressOf(group, k),
        questionId: view.record?.questionId ?? "",
        reason,
      });
      return;
    }
    alone = true;
    start(group, k, view, true);
  }

  /** Claims what there is room for. True if another look at the groups may find more. */
  async function takeWork(step: StepRecord): Promise<boolean> {
    while (views.length < step.groups.length) views.push(newGroupView());
    const turns = inTurn(membership.id, agent.name, peers, [...views.entries()]);
    const now = clock.monotonic();
    const hasRoom = !alone && inFlight < role.capacity;
    const looksAround = hasRoom && now - lookedAt >= pace / 2;
    if (looksAround) lookedAt = now;
    const due = dueViews(turns, { me: membership.id, stale: now - leaseSeconds / 2, looksAround });
    let unclaimed = hasRoom && team.complete() ? role.capacity - inFlight : 0;
    const unseen: Parameters<typeof claimUnseen>[] = [];
    const looks = turns.flatMap(([group, view]) => {
      if (view.record || unclaimed === 0) return due.has(view) ? [read(group, view)] : [];
      const wanted = [...Array(Math.min(unclaimed, run.config.rolloutsPerQuestion)).keys()];
      unclaimed -= wanted.length;
      unseen.push([group, view, wanted]);
      return [];
    });
    // Two claims at a time: of all at once the first would be answered with the last, and no conversation begin before.
    await Promise.all([...looks, inParallel(unseen, 2, (claiming) => claimUnseen(...claiming))]);
    if (!hasRoom) return false;
    const look = () =>
      views.map(({ record, mine }) => record && takeable(record, membership.id, mine, observer.isDead));
    let found = look();
    if (found.some((group) => group && group.elsewhere.length > 0)) {
      await observer.refresh();
      found = look();
    }
    const isIdle = found.every(
      (group) => !group || [...group.free, ...group.owned, ...group.suspects.keys()].length === 0,
    );
    if (!isIdle && !team.complete()) {
      await observer.refresh(true);
      if (!team.complete()) return true;
    }
    let room = role.capacity - inFlight;
    const claims = turns.flatMap(([g, view]) => {
      const group = found[g];
      if (!group) return [];
      for (const k of group.owned.slice(0, room)) start(g, k, view, false);
      room -= Math.min(room, group.owned.length);
      const wanted = group.free.slice(0, room);
      room -= wanted.length;
      return wanted.length > 0 ? [claim(g, view, wanted)] : [];
    });
    await Promise.all(claims);
    if (inFlight === 0 && claims.length === 0) await takeAlone(found);
    return found.some((group) => !group || group.elsewhere.length + group.suspects.size > 0) || claims.length > 0;
  }

  /** Not beside those who still train the step before. */
  async function takeAlone(found: readonly (ReturnType<typeof takeable> | undefined)[]) {
    if (isEarly()) return;
    for (const [group, view] of views.entries()) {
      const [lonely] = view.lonely;
      if (lonely !== undefined) {
        view.lonely.delete(lonely);
        alone = true;
        return start(group, lonely, view, true);
      }
      const [suspect] = found[group]?.suspects ?? [];
      if (suspect) return takeSuspect(group, view, ...suspect);
    }
  }

  try {
    for (;;) {
      const step = stepToSample(watch.current());
      if (stop.aborted) throw new MgrpoError("cancelled", "the worker is stopping");
      if (step?.step !== first.step) return;
      const before = inFlight;
      const again = await takeWork(step);
      if (broken) throw broken.error;
      pace = inFlight > before ? pollSeconds : Math.min(pace * 1.1, pollSeconds * 10);
      await pause(again || views.some(({ lonely }) => lonely.size > 0) ? pace : leaseSeconds / 2);
    }
  } finally {
    over.abort();
    await Promise.all(views.flatMap(({ running }) => [...running.values()].map(({ done }) => done)));
    if (!broken) await Promise.all(views.flatMap((view, g) => [...view.lonely].map((k) => release(g, k, view))));
  }

  /** Until an attempt ends, the step moves, or so many seconds are over. */
  async function pause(seconds: number) {
    const moved = (seen: RunSnapshot) => {
      const step = stepToSample(seen);
      return step?.step === first.step && step.groups.length === views.length ? undefined : true;
    };
    await watch.pause(seconds, moved, AbortSignal.any([stop, wake.signal]));
    if (wake.signal.aborted) wake = new AbortController();
  }
}
