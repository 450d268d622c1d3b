/** @file Computes when each span of a rollout began and ended from the measured durations of its turns and calls. Pure. */
import type { Conversation } from "../contracts/conversation.ts";
import { type CallPath, callPathOf, type FinishedOutcome, type Invocation } from "../contracts/rollout.ts";
import { latencyName, type TurnLatency } from "../contracts/telemetry.ts";

/** Seconds since the rollout began. */
export type SpanTime = readonly [start: number, end: number];

interface Timed {
  readonly outcome: FinishedOutcome;
  readonly invocations: ReadonlyMap<string, Invocation>;
  readonly latencies?: ReadonlyMap<string, readonly TurnLatency[]>;
}

/**
 * By span id: `main`, `<agent's id>/<turn>` and `<agent's id>/<turn>/<call>`, which is also the id of the agent that the call delegates to.
 * Undefined unless every turn of the rollout was measured.
 */
export function spanTimes({ outcome, invocations, latencies }: Timed): ReadonlyMap<string, SpanTime> | undefined {
  const times = new Map<string, SpanTime>();
  /** Records the conversation's times and returns when it ended, or NaN if it was not measured. */
  const walk = (id: string, start: number, { turns }: Conversation, path: CallPath): number => {
    const measured = latencies?.get(latencyName(outcome.address, path)) ?? [];
    if (measured.length !== turns.length) return Number.NaN;
    let now = start;
    for (const [i, turn] of turns.entries()) {
      const { sampling = 0, calls = [] } = measured[i] ?? {};
      times.set(`${id}/${i}`, [now, now + sampling]);
      now += sampling;
      for (const [j, response] of turn.responses.entries()) {
        const own = `${id}/${i}/${j}`;
        const found = response.invocation === undefined ? undefined : invocations.get(response.invocation);
        if (found && Number.isNaN(walk(own, now, found.conversation, callPathOf(found.request)))) return Number.NaN;
        times.set(own, [now, now + (calls[j] ?? 0)]);
      }
      now += Math.max(0, ...calls);
    }
    times.set(id, [start, now]);
    return now;
  };
  return Number.isNaN(walk("main", 0, outcome.conversation, [])) ? undefined : times;
}
