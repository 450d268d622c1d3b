/** @file How long the turns of this worker's training conversations took: each by itself (step-telemetry.ts), and summed for manifests. */
import type { TurnTotals } from "../core/contracts/checkpoint.ts";
import type { Conversation } from "../core/contracts/conversation.ts";
import type { CallPath, RolloutAddress } from "../core/contracts/rollout.ts";
import { latencyName, type StepTelemetry, type TurnLatency } from "../core/contracts/telemetry.ts";

type Conversations = StepTelemetry["conversations"];

export class LatencyLog {
  readonly #steps = new Map<number, Conversations>();

  add(address: RolloutAddress, path: CallPath, latencies: readonly TurnLatency[]): void {
    const conversations = this.#steps.get(address.step) ?? {};
    conversations[latencyName(address, path)] = [...latencies];
    this.#steps.set(address.step, conversations);
  }

  /** Removes and returns the conversations of all steps below `next`, by step. */
  takeBefore(next: number): ReadonlyMap<number, Conversations> {
    const taken = new Map([...this.#steps].filter(([step]) => step < next));
    for (const step of taken.keys()) this.#steps.delete(step);
    return taken;
  }
}

/** The totals in `before`, with the turns of one more conversation added. */
export function withTurns(
  before: TurnTotals | undefined,
  { turns }: Conversation,
  latencies: readonly TurnLatency[],
): TurnTotals {
  const none = { turns: 0, seconds: 0 };
  const { tools, delegations, ...sums } = before ?? { turns: 0, sampling: 0, tools: none, delegations: none };
  const waits = latencies.map(({ calls }, i) => {
    const isDelegation = (call: number) => turns[i]?.responses[call]?.invocation !== undefined;
    return {
      tools: calls.filter((_, call) => !isDelegation(call)),
      delegations: calls.filter((_, call) => isDelegation(call)),
    };
  });
  return {
    turns: sums.turns + latencies.length,
    sampling: latencies.reduce((sum, { sampling }) => sum + sampling, sums.sampling),
    tools: withWaits(
      tools,
      waits.map((one) => one.tools),
    ),
    delegations: withWaits(
      delegations,
      waits.map((one) => one.delegations),
    ),
  };
}

/** A turn waits for its slowest call. `calls`: seconds of each call, by turn. */
function withWaits(before: TurnTotals["tools"], calls: readonly (readonly number[])[]): TurnTotals["tools"] {
  const waited = calls.filter((seconds) => seconds.length > 0).map((seconds) => Math.max(...seconds));
  return {
    turns: before.turns + waited.length,
    seconds: waited.reduce((sum, seconds) => sum + seconds, before.seconds),
  };
}
