/**
 * @file What stops a command such as `train`, `eval` or `serve`: Ctrl-C or SIGTERM (its workers drain), a worker that cannot be kept alive, or
 * the death of the npm or mgrpo process that started the command (it then exits at once, as if it had been killed itself).
 */
import { linkSignals } from "../../core/any-signal.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { hasProcess } from "../../engine/checkpoint/leftovers.ts";
import { onStopSignal } from "../../gpu-workers/stop-signals.ts";

export interface Stop {
  /** Aborts when it is time to stop. */
  readonly signal: AbortSignal;
  fail(error: unknown): void;
  /** Throws the failure if one caused the stop. */
  rethrow(): void;
  dispose(): void;
}

const PARENT_CHECK_MILLISECONDS = 500;

export function watchForStop(): Stop {
  const controller = new AbortController();
  // A second Ctrl-C does not wait for the workers: they end with this process.
  const stopListening = onStopSignal(() => controller.abort());
  const parent = process.ppid;
  const exitsWithParent = process.env["npm_lifecycle_event"] !== undefined || process.env["MGRPO_PARENT"] === "1";
  const timer = setInterval(() => {
    // On Windows, an orphan keeps the id of its parent; elsewhere it gets another parent.
    if (exitsWithParent && (process.ppid !== parent || !hasProcess(parent))) process.exit(1);
  }, PARENT_CHECK_MILLISECONDS);
  return {
    signal: controller.signal,
    ...firstFailure(controller),
    dispose() {
      stopListening();
      clearInterval(timer);
    },
  };
}

/** Keeps the first failure, which aborts the controller. */
function firstFailure(controller: AbortController): Pick<Stop, "fail" | "rethrow"> {
  let failure: { readonly error: unknown } | undefined;
  return {
    fail(error) {
      failure ??= { error };
      controller.abort();
    },
    rethrow() {
      if (failure) throw failure.error;
    },
  };
}

/** Undefined, with exit code 130, if the work was canceled because the user stopped it. */
export async function unlessStopped<T>({ signal }: Stop, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (!signal.aborted || !isMgrpoError(error, "canceled")) throw error;
    process.exitCode = 130;
    return undefined;
  }
}

/** A stop that aborts when `outer` does, while its own failure does not stop `outer`. */
export function stopWithin(outer: Stop): Stop {
  const own = new AbortController();
  const { signal, unlink } = linkSignals(outer.signal, own.signal);
  const { fail, rethrow } = firstFailure(own);
  return {
    signal,
    fail,
    rethrow() {
      outer.rethrow();
      rethrow();
    },
    dispose: unlink,
  };
}
