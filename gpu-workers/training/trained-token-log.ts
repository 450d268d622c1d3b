/**
 * @file What the trainer computes about the tokens of a step, for display only: one object per policy and step, written after the version
 * that the step makes, so that nothing waits for it.
 */
import { objectKeys } from "../../core/contracts/keys.ts";
import type { TrainedTokens } from "../../core/contracts/telemetry.ts";
import { trainedTokensFile } from "../../engine/trained-tokens.ts";
import type { RunContext } from "../run-context.ts";

/** Tokens kept per step: 4 MiB of float32 log-probs. The trajectory that would exceed them, and all later ones, are left out. */
const MAX_TOKENS = 1 << 20;

export class TrainedTokenLog {
  readonly #trajectories = new Map<string, { readonly logProbs_A: Float32Array; readonly clipped: Set<number> }>();
  #tokens = 0;

  /** For `onTokens`: keeps the log-probs of the first call for each trajectory, and the tokens that any pass clips. */
  readonly add = (name: string, logProbs_A: ArrayLike<number>, clipped: readonly number[]): void => {
    const known = this.#trajectories.get(name);
    if (!known) {
      this.#tokens += logProbs_A.length;
      if (this.#tokens > MAX_TOKENS) return;
      this.#trajectories.set(name, { logProbs_A: Float32Array.from(logProbs_A), clipped: new Set(clipped) });
    } else for (const token of clipped) known.clipped.add(token);
  };

  /** Never rejects: a failure costs only the display. */
  async store({ name, store, log }: RunContext, step: number, agent: string): Promise<void> {
    if (this.#trajectories.size === 0) return;
    const trajectories = new Map(
      [...this.#trajectories].map(([one, { logProbs_A, clipped }]): [string, TrainedTokens] => [
        one,
        { logProbs_A, clipped: [...clipped].sort((a, b) => a - b) },
      ]),
    );
    try {
      await store.objects.commit(objectKeys.trainedTokens(name, step, agent), trainedTokensFile(trajectories));
    } catch (error) {
      log.warn("the trainer's log-probs could not be stored", { agent, step, error: String(error) });
    }
  }
}
