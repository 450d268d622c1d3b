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

async function isStepExpired(
  store: StoreReader,
  { run, step, state, groups }: StepRecord,
  nowSeconds: number,
): Promise<boolean> {
  if (state === "closed") return false;
  const expired = await Promise.all(groups.map((_, group) => isGroupExpired(store, run, step, group, nowSeconds)));
  return expired.includes(true);
}

async function isGroupExpired(
  { table, objects }: StoreReader,
  run: string,
  step: number,
  group: number,
  nowSeconds: number,
): Promise<boolean> {
  const item = await table.get(tableKeys.group(run, step, group));
  if (!item) return true;
  const { rollouts, expiresAt } = parse(GroupRecord, item, `GROUP ${step}/${group} of run '${run}'`);
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
