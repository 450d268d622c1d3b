/** @file The end of a run that a service refuses to work for: it is halted with the service's own words, and `resume` goes on with it. */
import { isMgrpoError, MgrpoError, refusalOf } from "../core/errors.ts";
import { haltRun } from "../core/training/halt-run.ts";
import { endRun } from "../core/training/writes.ts";
import type { Run } from "./run.ts";

/**
 * `run-halted`, once the run is halted since this is a refusal, or as it stands where the run was halted under it; undefined for other
 * errors. A run that has finished is halted only by who evaluates it: to training it does not matter any more.
 */
export async function haltedBy(
  { name, store, log }: Run,
  error: unknown,
  work: "training" | "evaluation" = "training",
): Promise<MgrpoError | undefined> {
  if (isMgrpoError(error, "run-halted")) return error;
  const refusal = refusalOf(error);
  if (!refusal) return undefined;
  const { applied, item } = await (work === "evaluation"
    ? haltRun(store.table, name, refusal.message)
    : store.table.update(endRun(name, "halted", refusal.message)));
  if (applied) log.error("run halted", { code: refusal.code, reason: refusal.message });
  if (item?.["status"] !== "halted") return undefined;
  return new MgrpoError("run-halted", `run '${name}' is halted: ${refusal.message}`, { cause: refusal });
}
