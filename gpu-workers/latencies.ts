/**
 * @file How long the turns of this worker's training conversations took: kept in memory until their step is over, then committed as one
 * object per step. Records of rollouts hold no times: their bytes are hashed, and are the same for every run of one config.
 *
 *     write   waits for: RUN.step to pass a step with latencies   unblocked by: tick; the signal, which writes what is left
 */
import type { TurnTotals } from "../core/contracts/checkpoint.ts";
import type { Conversation } from "../core/contracts/conversation.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import type { CallPath, RolloutAddress } from "../core/contracts/rollout.ts";
import { latencyName, type StepLatencies, type TurnLatency } from "../core/contracts/telemetry.ts";
import { recordBytes } from "./identity.ts";
import type { StepWatch } from "./liveness/watch.ts";
import type { RunContext } from "./run-context.ts";

type Conversations = StepLatencies["conversations"];

export class LatencyLog {
  readonly #steps = new Map<number, Conversations>();

  add(address: RolloutAddress, path: CallPath, latencies: readonly TurnLatency[]): void {
    const conversations = this.#steps.get(address.step) ?? {};
    conversations[latencyName(address, path)] = [...latencies];
    this.#steps.set(address.step, conversations);
  }

  /** Commits each step once it is over. Rejects with `canceled` when the signal aborts, as every loop of a worker. */
  async write(run: RunContext, watch: StepWatch, worker: string, signal: AbortSignal): Promise<void> {
    const oldest = () => Math.min(...this.#steps.keys());
    try {
      for (;;) {
        const over = await watch.until(({ run: { step } }) => (oldest() < step ? step : undefined), signal);
        await this.#commit(run, worker, over);
      }
    } finally {
      await this.#commit(run, worker, Number.POSITIVE_INFINITY);
    }
  }

  /** A step whose object is not stored is lost to readers alone. */
  async #commit({ name, store, log }: RunContext, worker: string, before: number): Promise<void> {
    const steps = [...this.#steps].filter(([step]) => step < before);
    for (const [step, conversations] of steps) {
      this.#steps.delete(step);
      const record: StepLatencies = { run: name, step, worker, conversations };
      await store.objects
        .commit(objectKeys.latencies(name, step, worker), recordBytes(record))
        .catch((error: unknown) => log.warn("latencies are not stored", { step, error: String(error) }));
    }
  }
}

/** Adds the turns of a conversation to sums. */
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

function withWaits(before: TurnTotals["tools"], calls: readonly (readonly number[])[]): TurnTotals["tools"] {
  const waited = calls.filter((seconds) => seconds.length > 0).map((seconds) => Math.max(...seconds));
  return {
    turns: before.turns + waited.length,
    seconds: waited.reduce((sum, seconds) => sum + seconds, before.seconds),
  };
}
