/** @file A refusal (`refusalOf`) halts the run, with its own message. `resume` continues the run. */
import { isMgrpoError, MgrpoError, refusalOf } from "../core/errors.ts";
import { haltOf, haltRun } from "../core/training/halt-run.ts";
import { endRun } from "../core/training/writes.ts";
import type { RunContext } from "./run-context.ts";

/**
 * Halts the run if the error is a refusal; a finished run, only if it is a refusal during evaluation. Returns the `run-halted` error to
 * throw, even if the run was already halted; undefined for other errors, and if the run stays finished.
 */
export async function haltIfRefused(
  { name, store, log }: RunContext,
  error: unknown,
  work: "training" | "evaluation" = "training",
): Promise<MgrpoError | undefined> {
  if (isMgrpoError(error, "run-halted")) return error;
  const refusal = refusalOf(error);
  if (!refusal) return undefined;
  const halt = haltOf(refusal);
  const { applied, item } = await (work === "evaluation"
    ? haltRun(store.table, name, halt)
    : store.table.update(endRun(name, halt)));
  if (applied) log.error("run halted", { code: refusal.code, reason: refusal.message });
  if (item?.["status"] !== "halted") return undefined;
  return new MgrpoError("run-halted", `run '${name}' is halted: ${refusal.message}`, { cause: refusal });
}
