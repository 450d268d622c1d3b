/**
 * @file The invocations of one sub-agent in one process. An id that is put again does not run again, unless it failed or was canceled.
 *
 *     (unknown) --put--> held --> running --> done      kept until an invocation is put whose step is more than `staleness` later
 *                          |         |  '----> failed    reported once, or canceled: after that, a put runs it again
 *                          '---------'-cancel-> (unknown)
 *
 *     held       waits for: this agent's version for its step  unblocked by: this process's trainer, RUN, `cancel`, or `drain`;
 *                                                              fails if the step closes or the time limit is reached
 *     wait(id)   waits for: the conversation and its commit    unblocked by: its result, or after `seconds`
 */
import { linkSignals } from "../../core/any-signal.ts";
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { type TimeLimit, timeLimitAfter, within } from "../limits.ts";
import { isInfrastructureFailure } from "../rollouts/attempt-rollout.ts";

/** The answer to `put`. */
export type PutResult = "accepted" | "draining" | "loading" | "step-closed";

/** The answer to `wait`. */
export type InvocationStatus = { readonly state: "unknown" } | { readonly state: "running" } | Settled;

type Settled =
  | { readonly state: "done"; readonly report: InvocationReport }
  | { readonly state: "failed"; readonly error: MgrpoError };

export interface InvocationRegistry {
  put(id: string, request: InvocationRequest): Promise<PutResult>;
  /** The result; `running` if there is none after `seconds`; `unknown` if the registry does not have the id. */
  wait(id: string, seconds: number): Promise<InvocationStatus>;
  cancel(id: string): void;
  /** Accepts no new work and cancels held invocations. Resolves when all have ended; cancels those that take longer than `seconds`. */
  drain(seconds: number): Promise<void>;
}

export interface InvocationRegistryOptions {
  run(id: string, request: InvocationRequest, signal: AbortSignal): Promise<InvocationReport>;
  /** Whether the step accepts invocations of this version, now or once this worker can sample it. Not called for an id that is known. */
  admits(request: InvocationRequest): Promise<boolean>;
  /** Resolves when the conversation may begin. Rejects with `step-closed` when it never will. */
  whenReady(request: InvocationRequest, signal: AbortSignal): Promise<void>;
  /** Resolves when every version of the step is published. The time limit starts then. */
  whenOpen(request: InvocationRequest, signal: AbortSignal): Promise<unknown>;
  /** Whether another version is being loaded, and `version` is neither open nor being loaded. */
  isLoadingOther(version: number): boolean;
  /** How many earlier steps may still be sampled alongside an invocation's own. */
  readonly staleness: number;
  /** Limit on an invocation's time, which starts once it has been put and its step is open. */
  readonly invocationSeconds: number;
  /** Called with an error that no invocation caused: the process cannot continue. */
  onFatal(error: unknown): void;
}

interface RegistryEntry {
  readonly step: number;
  readonly controller: AbortController;
  readonly settled: Promise<Settled>;
  hasBegun: boolean;
  result: Settled | undefined;
}

interface RegistryState {
  readonly options: InvocationRegistryOptions;
  readonly entries: Map<string, RegistryEntry>;
  isDraining: boolean;
}

export function openInvocationRegistry(options: InvocationRegistryOptions): InvocationRegistry {
  const registry: RegistryState = { options, entries: new Map(), isDraining: false };
  return {
    put: (id, request) => put(registry, id, request),
    wait: (id, seconds) => wait(registry, id, seconds),
    cancel: (id) => cancel(registry, id),
    drain: (seconds) => drain(registry, seconds),
  };
}

async function put(registry: RegistryState, id: string, request: InvocationRequest): Promise<PutResult> {
  const { options, entries } = registry;
  if (entries.has(id)) return "accepted";
  if (registry.isDraining) return "draining";
  if (!(await options.admits(request))) return "step-closed";
  if (registry.isDraining) return "draining";
  if (options.isLoadingOther(request.version)) return "loading";
  const oldest = request.address.step - options.staleness;
  for (const [old, { step, result }] of entries) if (result && step < oldest) entries.delete(old);
  // Another put of the same id may have started it during the `await` above.
  if (!entries.has(id)) start(registry, id, request);
  return "accepted";
}

async function wait({ entries }: RegistryState, id: string, seconds: number): Promise<InvocationStatus> {
  const entry = entries.get(id);
  if (!entry) return { state: "unknown" };
  const result = entry.result ?? (await within(entry.settled, seconds));
  if (!result) return { state: "running" };
  if (result.state === "failed" && entries.get(id) === entry) entries.delete(id);
  return result;
}

function cancel({ entries }: RegistryState, id: string): void {
  const entry = entries.get(id);
  // A failure is dropped too: its caller no longer waits, and the next attempt must not get it.
  if (!entry || entry.result?.state === "done") return;
  entries.delete(id);
  entry.controller.abort();
}

async function drain(registry: RegistryState, seconds: number): Promise<void> {
  registry.isDraining = true;
  const running = [...registry.entries.values()].filter(({ result }) => !result);
  for (const { hasBegun, controller } of running) if (!hasBegun) controller.abort();
  const all = Promise.all(running.map(({ settled }) => settled));
  if (await within(all, seconds)) return;
  for (const { controller } of running) controller.abort();
  await all;
}

function start({ options, entries }: RegistryState, id: string, request: InvocationRequest): void {
  const controller = new AbortController();
  const limit = timeLimitAfter(options.whenOpen(request, controller.signal), options.invocationSeconds);
  const { signal, unlink } = linkSignals(controller.signal, limit.signal);
  const settled = options
    .whenReady(request, signal)
    .then(() => {
      entry.hasBegun = true;
      return options.run(id, request, signal);
    })
    .then((report): Settled => ({ state: "done", report }))
    .catch((error: unknown): Settled => ({ state: "failed", error: failureOf(options, id, error, controller, limit) }))
    .finally(() => {
      limit.end();
      unlink();
    });
  const entry: RegistryEntry = { step: request.address.step, controller, settled, hasBegun: false, result: undefined };
  entries.set(id, entry);
  settled.then((result) => {
    entry.result = result;
    if (controller.signal.aborted && entries.get(id) === entry) entries.delete(id);
  });
}

function failureOf(
  options: InvocationRegistryOptions,
  id: string,
  error: unknown,
  { signal: canceled }: AbortController,
  { signal: outOfTime }: TimeLimit,
): MgrpoError {
  if (outOfTime.aborted && !canceled.aborted)
    return new MgrpoError(
      "deadline",
      `invocation ${id} took more than limits.invocationSeconds ${options.invocationSeconds}`,
    );
  if (isInfrastructureFailure(error) || isMgrpoError(error, "canceled", "step-closed", "run-halted")) return error;
  options.onFatal(error);
  return new MgrpoError("worker-unavailable", "the sub-agent's worker failed");
}
