/**
 * @file The batch of one agent in one step, part by part: its groups in the order of their index, a few at a time, each part as soon as
 * its groups are finalized, while others are still sampled. Which group is in which part follows from the step alone, never from who was
 * finalized first, so a step's gradient is the same sum whenever its trainer came.
 *
 *     a part          waits for: its groups finalized   unblocked by: score-rollout
 *     a short part    waits for: STEP ready          unblocked by: tick
 *     all parts       wait for: RUN running          unblocked by: resume
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, type StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { countsInBatch } from "../../core/training/step-plan.ts";
import type { Seen, StepWatch } from "../liveness/watch.ts";
import type { Run } from "../run.ts";
import { loadEntries } from "./load-entries.ts";
import type { TrainingEntry } from "./train-step.ts";
import type { Trajectories } from "./trajectories.ts";

/** Enough that an engine's micro-batches are full (a part of four costs some 3 to 8 % more padding than a step of sixteen), and few enough that the first comes early. */
const GROUPS_PER_PART = 4;

export interface PartsSource {
  readonly run: Run;
  readonly agent: string;
  readonly watch: StepWatch;
  readonly trajectories: Trajectories;
}

/** A part is read while the one before is trained on. Rejects with `step-closed` when the step was closed without this trainer. */
export async function* batchParts(
  { run, agent, watch, trajectories }: PartsSource,
  step: StepRecord,
  stop: AbortSignal,
): AsyncGenerator<TrainingEntry[]> {
  const over = new AbortController();
  const load = (groups: readonly GroupRecord[]) => loadEntries(run, step, agent, groups, trajectories);
  const left: GroupRecord[] = [];
  let counted = 0;

  async function* entries() {
    for await (const groups of finalizedParts(run, watch, step, AbortSignal.any([stop, over.signal]))) {
      const counting = groups.filter((group) => countsInBatch(run.config, group));
      left.push(...groups.filter((group) => !counting.includes(group)));
      counted += counting.length;
      yield await load(counting);
    }
    if (counted === 0) yield await load(left);
  }

  try {
    yield* readAhead(entries());
  } finally {
    over.abort();
  }
}

/** The groups of each part. */
async function* finalizedParts(run: Run, watch: StepWatch, first: StepRecord, stop: AbortSignal) {
  for (let begin = 0; ; begin += GROUPS_PER_PART) {
    const groups = await finalizedPart(run, watch, first, begin, stop);
    if (groups.length === 0) return;
    yield groups;
  }
}

/** The groups of the part that begins there, once all are finalized; none where the step has no more. */
async function finalizedPart(
  run: Run,
  watch: StepWatch,
  first: StepRecord,
  begin: number,
  stop: AbortSignal,
): Promise<GroupRecord[]> {
  const { pollSeconds } = run.config.liveness;
  const finalized = new Map<number, GroupRecord>();
  for (let pace = pollSeconds; ; pace = Math.min(pace * 1.1, pollSeconds * 10)) {
    const seen = watch.current();
    const step = stillOpenOrReady(first, seen);
    // A worker that drains ends a step that waits for it alone; of one that is open, all that it could take would be lost.
    if (stop.aborted && step.state === "open") throw stopping();
    const part = [...step.groups.keys()].slice(begin, begin + GROUPS_PER_PART);
    // A short part of an open step may get more groups yet, by dynamic sampling.
    const isWhole = step.state === "ready" || part.length === GROUPS_PER_PART;
    if (isWhole && seen?.run.status === "running") {
      const unread = part.filter((group) => !finalized.has(group));
      for (const record of await readFinalized(run, step, unread)) finalized.set(record.group, record);
      if (finalized.size === part.length) return part.flatMap((group) => finalized.get(group) ?? []);
    }
    if (stop.aborted) throw stopping();
    await watch.pause(pace, (now) => (now === seen ? undefined : now), stop);
  }
}

const stopping = () => new MgrpoError("cancelled", "the worker is stopping");

function stillOpenOrReady(first: StepRecord, seen: Seen | undefined): StepRecord {
  const step = seen ? seen.step : first;
  if (step?.step === first.step && step.state !== "closed") return step;
  throw new MgrpoError("step-closed", `run '${first.run}': step ${first.step} was closed by another trainer's version`);
}

/** Those that are finalized. While a step is open, some of its items may not be there yet. */
async function readFinalized(
  { name, store }: Run,
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

/** The same items; each is asked for when the one before is taken. */
async function* readAhead<T>(source: AsyncIterator<T>): AsyncGenerator<T> {
  let next = source.next();
  for (;;) {
    const { done, value } = await next;
    if (done) return;
    next = source.next();
    // Told where it is awaited, if it still is.
    next.catch(() => {});
    yield value;
  }
}
