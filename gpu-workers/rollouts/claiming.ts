/**
 * @file One round of claiming: reads the groups that are due, claims rollouts up to the free capacity, and starts them.
 *
 *     unread group  ──claimUnclaimedGroup──> start                   without a read: most likely no other worker has begun it
 *     free          ──claimUnclaimedGroup, claimRollouts──> start    unless its outcome exists
 *     owned         ──> start                                        claimed by a write whose response was lost
 *     suspect       ──claimRollouts──> start alone                   replaces the dead worker's claim; abandoned after `crashLimit` crashes alone
 *     quarantined   ──> start alone
 *
 *     a claim   waits for: free capacity, and a live worker of each sub-agent
 *     alone     waits for: no other attempt in flight here, of any step, and RUN to point to the step: no other step trains then
 *
 * Every claim is one conditional write on the GROUP item. Claims save work; correctness rests on the outcome object alone.
 */
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { StepRecord, WorkerRecord } from "../../core/contracts/records.ts";
import type { TableChange } from "../../core/ports.ts";
import { crashesOf, crashLimit, crashReason } from "../../core/training/abandon-rollouts.ts";
import { claimRollouts, claimUnclaimedGroup, splitIntoWrites } from "../../core/training/writes.ts";
import { inParallel } from "../parallel.ts";
import type { Attempts } from "./attempts.ts";
import { type ClaimableRollouts, claimableRollouts, hasClaimable } from "./claimable.ts";
import { claimOrder, dueViews, type LocalGroupView, newLocalGroupView } from "./local-group-view.ts";
import type { Pacing } from "./pacing.ts";
import { groupAddress, isOldest, rolloutAddress, type StepWork, updateView } from "./step-work.ts";

type ClaimableByGroup = ReadonlyMap<LocalGroupView, ClaimableRollouts>;

export class Claiming {
  readonly #work: StepWork;
  readonly #attempts: Attempts;
  readonly #pacing: Pacing;
  /** The workers as they were when this worker began the step, so that the claim order stays the same throughout. */
  readonly #workers: readonly WorkerRecord[];
  /** When groups were last surveyed, in seconds on the monotonic clock. */
  #surveyedAt = Number.NEGATIVE_INFINITY;
  #hasSuspects = false;

  constructor(work: StepWork, attempts: Attempts, pacing: Pacing) {
    this.#work = work;
    this.#attempts = attempts;
    this.#pacing = pacing;
    this.#workers = work.role.observer.workers();
  }

  /** Whether a rollout of this step has to run alone now: then nothing of a later step may start. */
  get mustRunAlone(): boolean {
    const isQuarantined = this.#work.views.some(({ quarantined }) => quarantined.size > 0);
    return isOldest(this.#work) && (isQuarantined || this.#hasSuspects);
  }

  /** Starts as many rollouts as there is room for. True if another round may soon find more. */
  async round({ groups }: StepRecord): Promise<boolean> {
    const { role, host, views } = this.#work;
    while (views.length < groups.length) views.push(newLocalGroupView(views.length));
    const order = claimOrder(role.membership.id, role.agent, this.#workers, views);
    const hasRoom = this.#attempts.room > 0;
    await this.#readOrClaim(order, hasRoom);
    if (!hasRoom) return false;
    const claimable = await this.#claimable();
    if ([...claimable.values()].some(hasClaimable) && !host.hasLiveSubAgents()) {
      await role.observer.refresh(true);
      if (!host.hasLiveSubAgents()) return true;
    }
    const hasTried = await this.#startFree(order, claimable);
    this.#hasSuspects = [...claimable.values()].some(({ suspects }) => suspects.size > 0);
    if (this.#attempts.inFlight === 0 && !hasTried) await this.#startAlone(claimable);
    const isUnread = claimable.size < views.length;
    return (
      hasTried || isUnread || [...claimable.values()].some((group) => group.elsewhere.length + group.suspects.size > 0)
    );
  }

  /** Reads the views that are due. Claims from unread groups instead, while there is room. */
  async #readOrClaim(order: readonly LocalGroupView[], hasRoom: boolean): Promise<void> {
    const { host, role } = this.#work;
    const due = this.#dueViews(order, hasRoom);
    let room = hasRoom && host.hasLiveSubAgents() ? this.#attempts.room : 0;
    const unread: { view: LocalGroupView; wanted: readonly number[] }[] = [];
    const reads = order.flatMap((view) => {
      if (view.record || room === 0) return due.has(view) ? [this.#read(view)] : [];
      const wanted = [...Array(Math.min(room, role.run.config.rolloutsPerQuestion)).keys()];
      room -= wanted.length;
      unread.push({ view, wanted });
      return [];
    });
    // Two claims at a time: a store that gets all of them at once may answer them all at about the same time, and no conversation could start
    // until then.
    await Promise.all([...reads, inParallel(unread, 2, ({ view, wanted }) => this.#claimUnread(view, wanted))]);
  }

  #dueViews(order: readonly LocalGroupView[], hasRoom: boolean): ReadonlySet<LocalGroupView> {
    const { membership, run } = this.#work.role;
    const now = run.store.clock.monotonic();
    const isSurvey = hasRoom && now - this.#surveyedAt >= this.#pacing.seconds / 2;
    if (isSurvey) this.#surveyedAt = now;
    return dueViews(order, { me: membership.id, staleBefore: now - run.config.liveness.leaseSeconds / 2, isSurvey });
  }

  async #read(view: LocalGroupView): Promise<void> {
    const { role, step } = this.#work;
    updateView(this.#work, view, await role.run.store.table.get(tableKeys.group(role.run.name, step, view.index)));
  }

  /** What is claimable in the groups that have been read. If other workers hold claims, first checks which of them are dead. */
  async #claimable(): Promise<ClaimableByGroup> {
    const { role, views } = this.#work;
    const classify = () =>
      new Map(
        views.flatMap((view) => {
          if (!view.record) return [];
          return [[view, claimableRollouts(view.record, role.membership.id, view.unclaimable, role.observer.isDead)]];
        }),
      );
    const found = classify();
    if (![...found.values()].some(({ elsewhere }) => elsewhere.length > 0)) return found;
    await role.observer.refresh();
    return classify();
  }

  /** Starts owned rollouts and claims free ones, in claim order. True if it tried to claim any. */
  async #startFree(order: readonly LocalGroupView[], claimable: ClaimableByGroup): Promise<boolean> {
    let { room } = this.#attempts;
    const claims = order.flatMap((view) => {
      const group = claimable.get(view);
      if (!group) return [];
      for (const k of group.owned.slice(0, room)) this.#attempts.start(view, k);
      room -= Math.min(room, group.owned.length);
      const wanted = group.free.slice(0, room);
      room -= wanted.length;
      return wanted.length > 0 ? [this.#claim(view, wanted)] : [];
    });
    await Promise.all(claims);
    return claims.length > 0;
  }

  async #claim(view: LocalGroupView, wanted: readonly number[]): Promise<void> {
    const rollouts = view.fresh ? wanted : await this.#withoutOutcome(view, wanted);
    if (rollouts.length === 0) return;
    const isBegun = view.record?.claims !== undefined;
    const address = groupAddress(this.#work, view);
    for (const part of isBegun ? splitIntoWrites(rollouts) : [rollouts]) {
      const change = isBegun ? claimRollouts(address, part, this.#me) : claimUnclaimedGroup(address, part, this.#me);
      if (await this.#write(view, change)) for (const k of part) this.#attempts.start(view, k);
    }
  }

  async #claimUnread(view: LocalGroupView, wanted: readonly number[]): Promise<void> {
    const isClaimed = await this.#write(view, claimUnclaimedGroup(groupAddress(this.#work, view), wanted, this.#me));
    if (isClaimed) for (const k of wanted) this.#attempts.start(view, k);
  }

  /** Starts one quarantined or suspect rollout, once all earlier steps are closed. */
  async #startAlone(claimable: ClaimableByGroup): Promise<void> {
    if (!isOldest(this.#work)) return;
    for (const view of this.#work.views) {
      const [quarantined] = view.quarantined;
      if (quarantined !== undefined) {
        view.quarantined.delete(quarantined);
        return this.#attempts.startAlone(view, quarantined);
      }
      const [suspect] = claimable.get(view)?.suspects ?? [];
      if (suspect) return this.#takeOver(view, ...suspect);
    }
  }

  async #takeOver(view: LocalGroupView, k: number, deadWorker: string): Promise<void> {
    // The dead worker may have committed an outcome that is not scored yet, in a fresh group too.
    if ((await this.#withoutOutcome(view, [k])).length === 0) return;
    const takenOver = new Map([[k, deadWorker]]);
    const change = claimRollouts(groupAddress(this.#work, view), [k], this.#me, takenOver);
    // The write was not applied, yet the claim is this worker's: the response to an earlier try was lost.
    const isTaken = (await this.#write(view, change)) || view.record?.claims?.[k] === this.#me;
    if (!isTaken) return;
    const crashes = view.record ? crashesOf(view.record, k) : 0;
    if (crashes < crashLimit(this.#work.role.run.config)) {
      return this.#attempts.startAlone(view, k);
    }
    view.unclaimable.add(k);
    await this.#attempts.commit({
      status: "failed",
      address: rolloutAddress(this.#work, view, k),
      questionId: view.record?.questionId ?? "",
      reason: crashReason(crashes),
    });
  }

  /** Drops rollouts whose outcome exists: the outcome object decides, not the claim. Unclaimed rollouts of a fresh group have none. */
  async #withoutOutcome(view: LocalGroupView, candidates: readonly number[]): Promise<readonly number[]> {
    const { objects } = this.#work.role.run.store;
    const keyOf = (k: number) => objectKeys.outcome(rolloutAddress(this.#work, view, k));
    const sizes = await Promise.all(candidates.map((k) => objects.head(keyOf(k))));
    for (const [i, k] of candidates.entries()) if (sizes[i] !== undefined) view.unclaimable.add(k);
    return candidates.filter((_, i) => sizes[i] === undefined);
  }

  /** True if the change was made; the view is up to date either way. */
  async #write(view: LocalGroupView, change: TableChange): Promise<boolean> {
    const { applied, item } = await this.#work.role.run.store.table.update(change);
    updateView(this.#work, view, item);
    return applied;
  }

  get #me(): string {
    return this.#work.role.membership.id;
  }
}
