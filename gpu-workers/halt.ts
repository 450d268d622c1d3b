/** @file A service that refuses to work halts the run, with the service's own message. `resume` continues it. */
import { isMgrpoError, MgrpoError, refusalOf } from "../core/errors.ts";
import { haltRun } from "../core/training/halt-run.ts";
import { endRun } from "../core/training/writes.ts";
import type { RunContext } from "./run-context.ts";

/**
 * Halts the run if the error is a refusal. Returns the `run-halted` error to end with, also if the run was halted already; undefined for
 * other errors. Only evaluation halts a run that has finished: training has no more use for it.
 */
export async function haltIfRefused(
  { name, store, log }: RunContext,
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
