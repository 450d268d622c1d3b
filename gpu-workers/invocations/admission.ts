/**
 * @file Which invocations, and which turns of an app's sessions, a sub-agent's worker accepts: those of the steps that it can sample now, and
 * those of the next steps, which wait for the agent's version.
 */
import type { StepRecord } from "../../core/contracts/records.ts";
import type { InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { stepsToSample, whenOpen } from "../liveness/opening.ts";
import type { RunSnapshot, StepWatch } from "../liveness/watch.ts";
import type { RunContext } from "../run-context.ts";

/** What asks to be admitted: an invocation, or a session of an app. */
type AdmissionRequest = Pick<InvocationRequest, "address" | "version">;

export interface AdmissionRules {
  /** Whether the step accepts the request, now or once this worker can sample the version. */
  admits(request: AdmissionRequest): Promise<boolean>;
  /** Resolves when the conversation may begin. Rejects with `step-closed` when it never will. */
  whenReady(request: AdmissionRequest, signal: AbortSignal): Promise<void>;
  /** Resolves when every version of the step is published. */
  whenOpen(request: AdmissionRequest, signal: AbortSignal): Promise<unknown>;
}

export function admissionRules(run: RunContext, agent: string, watch: StepWatch): AdmissionRules {
  const { staleness } = run.config;
  let lastRefresh = Number.NEGATIVE_INFINITY;
  /** An early invocation justifies a read of RUN; many at once justify only one. */
  const mayRefresh = () => {
    const now = run.store.clock.monotonic();
    if (now - lastRefresh < run.config.liveness.pollSeconds / 4) return false;
    lastRefresh = now;
    return true;
  };
  return {
    async admits(request) {
      if (request.address.run !== run.name || request.address.phase !== "train") return false;
      const snapshot = watch.current();
      const verdict = snapshot ? admission(snapshot, agent, staleness, request) : "refused";
      if (verdict === "ready" || (verdict === "early" && !mayRefresh())) return true;
      // The snapshot may be stale: refuse only on the basis of a fresh one.
      return admission(await watch.refresh(), agent, staleness, request) !== "refused";
    },
    whenOpen: ({ address }, signal) => whenOpen(watch, address.step, staleness, signal),
    async whenReady(request, signal) {
      const decided = (snapshot: RunSnapshot) => {
        const verdict = admission(snapshot, agent, staleness, request);
        return verdict === "early" ? undefined : verdict;
      };
      if ((await watch.untilUrgently(decided, signal)) === "ready") return;
      const { step } = request.address;
      throw new MgrpoError(
        "step-closed",
        `run '${run.name}': step ${step} accepts no invocation of version ${request.version}`,
      );
    },
  };
}

/** `early`: the conversation may begin later. */
type Admission = "ready" | "early" | "refused";

function admission(
  snapshot: RunSnapshot,
  agent: string,
  staleness: number,
  { address, version }: AdmissionRequest,
): Admission {
  const isAsked = ({ step }: StepRecord) => step === address.step;
  const samplable = stepsToSample(snapshot).find(isAsked);
  if (samplable) return samplable.policy[agent] === version ? "ready" : "refused";
  const ahead = address.step - snapshot.run.step;
  const { state } = snapshot.steps.find(isAsked) ?? { state: "open" };
  return ahead >= 0 && ahead <= staleness + 1 && state === "open" ? "early" : "refused";
}
