/**
 * @file The invocations of one sub-agent in one process: each id is run once, however often it is asked for.
 *
 *     (unknown) --put--> held --> running --> done      its result stays until its step is over
 *                          |         |  '----> failed    told once; the next put runs it anew
 *                          '---------'-cancel-> (unknown)
 *
 *     held       waits for: this agent's version for its step  unblocked by: this process's trainer, or RUN; `cancel`
 *     wait(id)   waits for: the conversation and its commit    unblocked by: either, its wall clock, or `cancel`
 */
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { timeLimitAfter } from "../limits.ts";
import { isInfrastructureFailure } from "../rollouts/attempt-rollout.ts";

/** What `put` answers. */
export type Admission = "accepted" | "draining" | "loading" | "step-closed";

export type Answer =
  | { readonly state: "unknown" }
  | { readonly state: "running" }
  | { readonly state: "done"; readonly report: InvocationReport }
  | { readonly state: "failed"; readonly error: MgrpoError };

export interface Desk {
  put(id: string, request: InvocationRequest): Promise<Admission>;
  /** The answer, or `running` after so many seconds. */
  wait(id: string, seconds: number): Promise<Answer>;
  cancel(id: string): void;
  /** No new work from now on; resolves when what runs has ended, or was cancelled after so many seconds. */
  drain(seconds: number): Promise<void>;
}

export interface DeskOptions {
  run(id: string, request: InvocationRequest, signal: AbortSignal): Promise<InvocationReport>;
  /** Whether the step takes invocations of this version, or will as soon as that can be sampled here; asked when the id is new. */
  admits(request: InvocationRequest): Promise<boolean>;
  /** Resolves when its conversation may begin. Rejects with `step-closed` when it never will. */
  mayBegin(request: InvocationRequest, signal: AbortSignal): Promise<void>;
  /** Resolves when its step is open for all: from then on its wall clock counts. */
  opened(request: InvocationRequest, signal: AbortSignal): Promise<unknown>;
  /** A version being loaded now, if any. */
  loading(): number | undefined;
  readonly wallClockSeconds: number;
  /** Told of errors that are no invocation's fault: the process cannot go on. */
  fatal(error: unknown): void;
}

interface Entry {
  readonly step: number;
  readonly controller: AbortController;
  readonly settled: Promise<Answer>;
  hasBegun: boolean;
  answer: Answer | undefined;
}

export function openDesk(options: DeskOptions): Desk {
  const entries = new Map<string, Entry>();
  let draining = false;

  function start(id: string, request: InvocationRequest) {
    const controller = new AbortController();
    const clock = timeLimitAfter(options.opened(request, controller.signal), options.wallClockSeconds);
    const signal = AbortSignal.any([controller.signal, clock.signal]);
    const settled = options
      .mayBegin(request, signal)
      .then(() => {
        entry.hasBegun = true;
        return options.run(id, request, signal);
      })
      .then((report): Answer => ({ state: "done", report }))
      .catch((error: unknown): Answer => {
        const late = clock.signal.aborted && !controller.signal.aborted;
        if (late)
          return { state: "failed", error: new MgrpoError("deadline", `invocation ${id} ran out of wall clock`) };
        if (isInfrastructureFailure(error) || isMgrpoError(error, "cancelled", "step-closed", "run-halted"))
          return { state: "failed", error };
        options.fatal(error);
        return { state: "failed", error: new MgrpoError("worker-unavailable", "the sub-agent's worker failed") };
      })
      .finally(clock.end);
    const entry: Entry = { step: request.address.step, controller, settled, hasBegun: false, answer: undefined };
    entries.set(id, entry);
    settled.then((answer) => {
      entry.answer = answer;
      if (controller.signal.aborted && entries.get(id) === entry) entries.delete(id);
    });
  }

  return {
    async put(id, request) {
      if (entries.has(id)) return "accepted";
      if (draining) return "draining";
      if (!(await options.admits(request))) return "step-closed";
      if (draining) return "draining";
      const loading = options.loading();
      if (loading !== undefined && loading !== request.version) return "loading";
      for (const [old, { step, answer }] of entries) if (answer && step < request.address.step) entries.delete(old);
      if (!entries.has(id)) start(id, request);
      return "accepted";
    },
    async wait(id, seconds) {
      const entry = entries.get(id);
      if (!entry) return { state: "unknown" };
      const answer = entry.answer ?? (await within(entry.settled, seconds));
      if (!answer) return { state: "running" };
      if (answer.state === "failed" && entries.get(id) === entry) entries.delete(id);
      return answer;
    },
    cancel(id) {
      const entry = entries.get(id);
      if (!entry || entry.answer) return;
      entries.delete(id);
      entry.controller.abort();
    },
    async drain(seconds) {
      draining = true;
      const running = [...entries.values()].filter(({ answer }) => !answer);
      for (const { hasBegun, controller } of running) if (!hasBegun) controller.abort();
      const all = Promise.all(running.map(({ settled }) => settled));
      if (await within(all, seconds)) return;
      for (const { controller } of running) controller.abort();
      await all;
    },
  };
}

/** The value, or undefined when it takes longer. */
async function within<T>(value: Promise<T>, seconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), seconds * 1000);
  });
  return Promise.race([value, late]).finally(() => clearTimeout(timer));
}
