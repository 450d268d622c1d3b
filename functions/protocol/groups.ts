/** @file Reads the groups of a step: all of them, or in order up to the first that is still open. */
import type { GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Context } from "../context.ts";

type Groups = (GroupRecord | undefined)[];

/** Groups by index, undefined where the item is missing. */
export function readGroups({ records }: Context, { run, step, groups }: StepRecord): Promise<Groups> {
  return Promise.all(groups.map((_, index) => records.groupAt(run, step, index)));
}

/** The same, if no group is open; undefined as soon as one is. Looks on from the one that was open at the last look. */
export async function readIfFinalized(context: Context, step: StepRecord): Promise<Groups | undefined> {
  const { groupAt, lastOpen } = context.records;
  const before = lastOpen.get(step.run);
  const first = before?.step === step.step ? before.group : 0;
  for (let group = first; group < step.groups.length; group++) {
    if ((await groupAt(step.run, step.step, group))?.state !== "open") continue;
    lastOpen.set(step.run, { step: step.step, group });
    return undefined;
  }
  const groups = await readGroups(context, step);
  return groups.some((group) => group?.state === "open") ? undefined : groups;
}

/** All groups of the `count` steps before. */
export async function readEarlier(context: Context, { run, step }: StepRecord, count: number): Promise<GroupRecord[]> {
  const steps = Array.from({ length: Math.min(count, step) }, (_, i) => step - 1 - i);
  const groups = await Promise.all(
    steps.map(async (earlier) => {
      const plan = await context.records.step(run, earlier);
      return plan ? readGroups(context, plan) : [];
    }),
  );
  return groups.flat().flatMap((group) => group ?? []);
}
