/**
 * @file Checks whether a step in flight of an old run has expired: the store of a deployment deletes conversations and GROUP records after
 * 90 days (core/training/retention.ts), and a step cannot train on deleted records. No other store deletes them.
 */
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, type RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { CONVERSATION_DAYS } from "../../core/training/retention.ts";

type StoreReader = Pick<Store, "table" | "clock"> & { readonly objects: Pick<Store["objects"], "head"> };

/** Rejects if a group of a step in flight, or a conversation that it counts, has expired or can expire at any time. */
export async function refuseExpired(store: StoreReader, { run, step, startedAt }: RunRecord): Promise<void> {
  const now = await store.clock.storeTime();
  // Nothing of a younger run has expired: if one of its groups has no record, tick is about to add it.
  if (now - startedAt < CONVERSATION_DAYS * 86_400_000) return;
  if (!(await store.table.get(tableKeys.deployment))) return;
  for (let planned = step; ; planned++) {
    const item = await store.table.get(tableKeys.step(run, planned));
    if (!item) return;
    const record = parse(StepRecord, item, `STEP ${planned} of run '${run}'`);
    if (!(await isStepExpired(store, record, now / 1000))) continue;
    const advice =
      step === 0
        ? "no step has finished, so there is nothing to keep: start another run"
        : "export its last version with `mgrpo export` and train from that";
    throw new MgrpoError(
      "run-halted",
      `run '${run}' cannot resume: conversations of step ${planned} have expired after ${CONVERSATION_DAYS} days: ${advice}`,
    );
  }
}

async function isStepExpired(store: StoreReader, record: StepRecord, nowSeconds: number): Promise<boolean> {
  if (record.state === "closed") return false;
  const { run, step } = record;
  const records = await Promise.all(record.groups.map((_, group) => readGroup(store, run, step, group)));
  // A group without a record is new, and tick is about to add it, unless the record has been deleted.
  if (records.includes(undefined) && !(await isPlannedRecently(store, record, nowSeconds))) return true;
  const expired = await Promise.all(
    records.map((group) => group !== undefined && isGroupExpired(store, group, nowSeconds)),
  );
  return expired.includes(true);
}

/**
 * True only if no GROUP record of the step can have expired. STEP has no time, but names the versions that it is sampled from, and the groups
 * of the step before the newest of them are finalized before STEP is planned (core/training/step-plan.ts). So they expire first.
 */
async function isPlannedRecently(
  store: StoreReader,
  { run, policy }: StepRecord,
  nowSeconds: number,
): Promise<boolean> {
  const version = Math.max(...Object.values(policy));
  if (version === 0) return false;
  const before = await readGroup(store, run, version - 1, 0);
  return before?.expiresAt !== undefined && before.expiresAt > nowSeconds;
}

async function readGroup(
  { table }: StoreReader,
  run: string,
  step: number,
  group: number,
): Promise<GroupRecord | undefined> {
  const item = await table.get(tableKeys.group(run, step, group));
  return item && parse(GroupRecord, item, `GROUP ${step}/${group} of run '${run}'`);
}

async function isGroupExpired(
  { objects }: StoreReader,
  { run, step, group, rollouts, expiresAt }: GroupRecord,
  nowSeconds: number,
): Promise<boolean> {
  if (expiresAt !== undefined && expiresAt <= nowSeconds) return true;
  // Checks every conversation: in a resumed run, the conversations of a group, even of one rollout, can differ in age.
  const keys = Object.entries(rollouts).flatMap(([k, score]) => {
    if ("excluded" in score) return [];
    const calls = Object.values(score.invocations).flat();
    const outcome = objectKeys.outcome({ run, phase: "train", step, group, rollout: Number(k) });
    return [outcome, ...calls.map(({ id }) => objectKeys.invocation(run, step, id))];
  });
  return (await Promise.all(keys.map((key) => objects.head(key)))).includes(undefined);
}
