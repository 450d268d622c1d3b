/**
 * @file One abort signal for several. `AbortSignal.any` registers an entry on each source signal, and in many versions
 * of Node.js a long-lived signal never drops it (nodejs/node#55351, #64476), so a worker's memory would grow with every
 * call.
 */

export interface LinkedSignal {
  /** Aborts as soon as one of the signals does, with its reason. */
  readonly signal: AbortSignal;
  /** Stops following the source signals: removes its own listeners from them. Not needed once one of them has aborted. */
  unlink(): void;
}

export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const linked = new AbortController();
  const sources = signals.filter((source) => source !== undefined);
  const unlink = () => {
    for (const source of sources) source.removeEventListener("abort", abort);
  };
  const abort = () => {
    unlink();
    linked.abort(sources.find(({ aborted }) => aborted)?.reason);
  };
  if (sources.some(({ aborted }) => aborted)) abort();
  else for (const source of sources) source.addEventListener("abort", abort, { once: true });
  return { signal: linked.signal, unlink };
}

/** Runs the work with a signal that aborts when one of `signals` does. Unlinks it once the work settles. */
export async function withAnySignal<T>(
  signals: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, unlink } = linkSignals(...signals);
  try {
    return await work(signal);
  } finally {
    unlink();
  }
}
