/** @file Which invocations a sub-agent's worker takes: those of the open step, and those of the next one, which wait for its version. */
import type { InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { whenOpen, workable } from "../liveness/opening.ts";
import type { Seen, StepWatch } from "../liveness/watch.ts";
import type { RunContext } from "../run-context.ts";
import type { DeskOptions } from "./registry.ts";

export function admission(
  run: RunContext,
  agent: string,
  watch: StepWatch,
): Pick<DeskOptions, "admits" | "mayBegin" | "opened"> {
  /** Whether the conversation may begin; undefined: not yet. */
  const isTaken = (seen: Seen, { address, version }: InvocationRequest): boolean | undefined => {
    const step = workable(seen);
    if (step?.step === address.step) return step.policy[agent] === version;
    const isNext = seen.run.step + 1 === address.step;
    const isStill = seen.run.step === address.step && (!seen.step || seen.step.state === "open");
    return isNext || isStill ? undefined : false;
  };
  let lookedAt = Number.NEGATIVE_INFINITY;
  /** One that has to wait is worth a look, many at once are worth no more. */
  const takesLook = () => {
    const now = run.store.clock.monotonic();
    if (now - lookedAt < run.config.liveness.pollSeconds / 4) return false;
    lookedAt = now;
    return true;
  };
  return {
    async admits(request) {
      if (request.address.run !== run.name || request.address.phase !== "train") return false;
      const seen = watch.current();
      const taken = seen ? isTaken(seen, request) : false;
      if (taken === true || (taken === undefined && !takesLook())) return true;
      return isTaken(await watch.refresh(), request) !== false;
    },
    opened: ({ address }, signal) => whenOpen(watch, address.step, signal),
    async mayBegin(request, signal) {
      if (await watch.soon((seen) => isTaken(seen, request), signal)) return;
      const { step } = request.address;
      throw new MgrpoError(
        "step-closed",
        `run '${run.name}': step ${step} takes no invocation of version ${request.version}`,
      );
    },
  };
}
