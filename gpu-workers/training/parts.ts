/**
 * @file The batch of one policy in one step, in parts: its groups in the order of their index, a few at a time, each part as soon as its
 * groups are finalized, while others are still being sampled. Which group is in which part follows from the step alone, never from the
 * order in which groups are finalized, so a step's gradient is the same sum whenever its trainer begins.
 *
 *     a part          waits for: its groups finalized   unblocked by: score-rollout
 *     a short part    waits for: STEP ready             unblocked by: tick
 *     all parts       wait for: RUN running             unblocked by: resume
 */
import { linkSignals } from "../../core/any-signal.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, type StepRecord } from "../../core/contracts/records.ts";
import { agentsOfPolicy } from "../../core/contracts/shared-policy.ts";
import { MgrpoError } from "../../core/errors.ts";
import { countsInBatch } from "../../core/training/step-plan.ts";
import type { RunSnapshot, StepWatch } from "../liveness/watch.ts";
import type { RunContext } from "../run-context.ts";
import { loadEntries } from "./load-entries.ts";
import type { TrainingEntry } from "./train-step.ts";
import type { TrajectoryCache } from "./trajectories.ts";

/** Large enough to fill micro-batches (a part of four groups costs 3 to 8% more padding than a step of sixteen), small enough to start early. */
const GROUPS_PER_PART = 4;

export interface PartsSource {
  readonly run: RunContext;
  /** The agent that owns the policy. Those that share it train it too. */
  readonly agent: string;
  readonly watch: StepWatch;
  readonly trajectories: TrajectoryCache;
}

/**
 * Reads each part while the previous one is trained on: the trajectories of every agent that shares the policy. Groups that do not count in
 * an agent's batch are left out, unless none counts: then all come in one last part. Rejects with `step-closed` when the step is
 * closed without this trainer.
 */
export async function* batchParts(
  { run, agent, watch, trajectories }: PartsSource,
  step: StepRecord,
  stop: AbortSignal,
): AsyncGenerator<TrainingEntry[]> {
  const batches = agentsOfPolicy(run.config.agents, agent).map((name) => new AgentGroups(run, name));
  const over = new AbortController();
  const { signal: either } = linkSignals(stop, over.signal);
  const load = async (groupsOf: (batch: AgentGroups) => readonly GroupRecord[]) => {
    const each = batches.map((batch) => loadEntries(run, step, batch.agent, groupsOf(batch), trajectories));
    return (await Promise.all(each)).flat();
  };

  async function* entries() {
    for await (const groups of finalizedParts(run, watch, step, either)) {
      yield await load((batch) => batch.counting(groups));
    }
    const last = await load((batch) => batch.ifNoneCounted());
    if (last.length > 0) yield last;
  }

  try {
    yield* readAhead(entries());
  } finally {
    over.abort();
  }
}

/** Which groups count in the batch of one agent. */
class AgentGroups {
  readonly agent: string;
  readonly #run: RunContext;
  readonly #notCounted: GroupRecord[] = [];
  #counted = 0;

  constructor(run: RunContext, agent: string) {
    this.#run = run;
    this.agent = agent;
  }

  counting(groups: readonly GroupRecord[]): GroupRecord[] {
    const counting = groups.filter((group) => countsInBatch(this.#run.config, group, this.agent));
    this.#notCounted.push(...groups.filter((group) => !counting.includes(group)));
    this.#counted += counting.length;
    return counting;
  }

  ifNoneCounted(): readonly GroupRecord[] {
    return this.#counted === 0 ? this.#notCounted : [];
  }
}

/** The groups of each part, in order. */
async function* finalizedParts(run: RunContext, watch: StepWatch, first: StepRecord, stop: AbortSignal) {
  for (let begin = 0; ; begin += GROUPS_PER_PART) {
    const groups = await finalizedPart(run, watch, first, begin, stop);
    if (groups.length === 0) return;
    yield groups;
  }
}

/** The groups of the part that begins at index `begin`, once all are finalized; none when the step has no more. */
async function finalizedPart(
  run: RunContext,
  watch: StepWatch,
  first: StepRecord,
  begin: number,
  stop: AbortSignal,
): Promise<GroupRecord[]> {
  const { pollSeconds } = run.config.liveness;
  const finalized = new Map<number, GroupRecord>();
  for (let pace = pollSeconds; ; pace = Math.min(pace * 1.1, pollSeconds * 10)) {
    const snapshot = watch.current();
    const step = stillOpenOrReady(first, snapshot);
    // A draining worker finishes a ready step, which waits only for its trainers. In an open step its work would be lost.
    if (stop.aborted && step.state === "open") throw stopping();
    const part = [...step.groups.keys()].slice(begin, begin + GROUPS_PER_PART);
    // Dynamic sampling may still add groups to a short part of an open step.
    const isWhole = step.state === "ready" || part.length === GROUPS_PER_PART;
    if (isWhole && snapshot?.run.status === "running") {
      const unread = part.filter((group) => !finalized.has(group));
      for (const record of await readFinalized(run, step, unread)) finalized.set(record.group, record);
      if (finalized.size === part.length) return part.flatMap((group) => finalized.get(group) ?? []);
    }
    if (stop.aborted) throw stopping();
    await watch.pause(pace, (now) => (now === snapshot ? undefined : now), stop);
  }
}

const stopping = () => new MgrpoError("canceled", "the worker is stopping");

/** The step as it is now. */
function stillOpenOrReady(first: StepRecord, snapshot: RunSnapshot | undefined): StepRecord {
  const step = snapshot ? snapshot.step : first;
  if (step?.step === first.step && step.state !== "closed") return step;
  throw new MgrpoError(
    "step-closed",
    `run '${first.run}': step ${first.step} was closed with another trainer's version`,
  );
}

/** The records of the groups that are finalized. While a step is open, some of its groups may have no record yet. */
async function readFinalized(
  { name, store }: RunContext,
  step: StepRecord,
  groups: readonly number[],
): Promise<GroupRecord[]> {
  const items = await store.table.getAll(groups.map((group) => tableKeys.group(name, step.step, group)));
  return items.flatMap((item, i) => {
    const what = `GROUP ${step.step}/${groups[i]} of ${name}`;
    const isReady = step.state === "ready";
    const record = item || isReady ? parse(GroupRecord, item, what) : undefined;
    if (record?.state === "finalized") return [record];
    if (isReady) throw new MgrpoError("record-damaged", `${what} is not finalized in a ready step`);
    return [];
  });
}

/** The same items, each requested when the previous one is taken. */
async function* readAhead<T>(source: AsyncIterator<T>): AsyncGenerator<T> {
  let next = source.next();
  for (;;) {
    const { done, value } = await next;
    if (done) return;
    next = source.next();
    // It rejects where it is awaited; if it never is, the rejection does not matter.
    next.catch(() => {});
    yield value;
  }
}
