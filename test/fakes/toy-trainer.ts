/**
 * @file A Trainer small enough to check by hand: a bigram softmax, logits[previous][next] / temperature, in float64, trained by plain
 * gradient descent (learning rate only, after clipping by global norm). Its losses follow the comments of `Loss` in core/policy-ports.ts
 * and use no code of core.
 */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { CheckpointFiles, ForwardBackward, Loss, Trainer, TrainingSequence } from "../../core/ports.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";

export class ToyTrainer implements Trainer {
  readonly vocabulary: number;
  logits: Float64Array;
  gradient: Float64Array;
  /** The gradient at the last call of `gradientNorm`. Empty: zero. */
  measured = new Float64Array();
  /** Calls in order, except saves, loads and `close`; `forwardBackward` with the loss's kind. */
  readonly calls: string[] = [];
  readonly sequencesSeen: number[][] = [];
  readonly temperatures = new Set<number>();

  constructor(vocabulary: number, logits?: ArrayLike<number>) {
    this.vocabulary = vocabulary;
    this.logits = logits ? new Float64Array(logits) : new Float64Array(vocabulary ** 2);
    this.gradient = new Float64Array(vocabulary ** 2);
  }

  async logProbs(sequences: readonly (readonly number[])[], temperature: number): Promise<Float32Array[]> {
    this.calls.push("logProbs");
    this.temperatures.add(temperature);
    return sequences.map((tokens) => Float32Array.from(this.logProbsOf(tokens, temperature)));
  }

  async forwardBackward(batch: readonly TrainingSequence[], loss: Loss, temperature: number): Promise<ForwardBackward> {
    this.calls.push(`forwardBackward:${loss.kind}`);
    this.temperatures.add(temperature);
    let total = 0;
    const logProbs = batch.map((sequence) => {
      this.sequencesSeen.push([...sequence.tokens]);
      const logProbs_T = this.logProbsOf(sequence.tokens, temperature);
      for (let t = 1; t < sequence.tokens.length; t++) {
        const [value, derivative] = tokenLoss(sequence, t, logProbs_T[t] ?? 0, loss);
        total += value;
        if (loss.kind === "linear-entropy") total -= this.accumulateEntropy(sequence, t, temperature);
        if (derivative === 0) continue;
        this.accumulate(sequence.tokens[t - 1] ?? 0, sequence.tokens[t] ?? 0, derivative, temperature);
      }
      return Float32Array.from(logProbs_T);
    });
    return { loss: total, logProbs };
  }

  async optimizerStep(
    { learningRate, maxGradientNorm }: OptimizerConfig,
    scale = 1,
  ): Promise<{ gradientNorm: number }> {
    this.calls.push("optimizerStep");
    const gradientNorm = scale * Math.hypot(...this.gradient);
    const rate =
      scale *
      learningRate *
      Math.min(1, (maxGradientNorm ?? Number.POSITIVE_INFINITY) / Math.max(gradientNorm, 1e-300));
    this.logits = this.logits.map((logit, i) => logit - rate * (this.gradient[i] ?? 0));
    this.gradient = new Float64Array(this.gradient.length);
    this.measured = new Float64Array();
    return { gradientNorm };
  }

  async gradientNorm(): Promise<number> {
    this.calls.push("gradientNorm");
    const norm = Math.hypot(...this.gradient.map((g, i) => g - (this.measured[i] ?? 0)));
    this.measured = this.gradient.slice();
    return norm;
  }

  async save(): Promise<Map<string, Uint8Array>> {
    return new Map([["model.safetensors", new Uint8Array(Float64Array.from(this.logits).buffer)]]);
  }

  async load(files: CheckpointFiles): Promise<void> {
    const bytes = wholeFile(files.get("model.safetensors") ?? new Uint8Array());
    this.logits = new Float64Array(bytes.slice().buffer);
    this.gradient = new Float64Array(this.logits.length);
    this.measured = new Float64Array();
  }

  async close(): Promise<void> {}

  /** Each token's log-prob after the previous token; entry 0 is 0. */
  logProbsOf(tokens: readonly number[], temperature: number): number[] {
    const rows = new Map<number, { row: Float64Array; logTotal: number }>();
    const rowOf = (previous: number) => {
      const row = this.row(previous, temperature);
      const computed = { row, logTotal: Math.log(row.reduce((sum, logit) => sum + Math.exp(logit), 0)) };
      rows.set(previous, computed);
      return computed;
    };
    return tokens.map((token, t) => {
      if (t === 0) return 0;
      const previous = tokens[t - 1] ?? 0;
      const { row, logTotal } = rows.get(previous) ?? rowOf(previous);
      return (row[token] ?? 0) - logTotal;
    });
  }

  private row(previous: number, temperature: number): Float64Array {
    const row = this.logits.slice(previous * this.vocabulary, (previous + 1) * this.vocabulary);
    return row.map((logit) => logit / temperature);
  }

  /** Adds derivative * d logProb / d logit_j, where d logProb / d logit_j = (1[j = token] - p_j) / temperature. */
  private accumulate(previous: number, token: number, derivative: number, temperature: number): void {
    const row = this.row(previous, temperature);
    const total = row.reduce((sum, logit) => sum + Math.exp(logit), 0);
    row.forEach((logit, j) => {
      const index = previous * this.vocabulary + j;
      const byLogit = ((j === token ? 1 : 0) - Math.exp(logit) / total) / temperature;
      this.gradient[index] = (this.gradient[index] ?? 0) + derivative * byLogit;
    });
  }

  /** Returns u H: weight u times the entropy H = -sum p log p. Adds d(-u H) / d logit_j = u p_j (log p_j + H) / temperature. */
  private accumulateEntropy({ tokens, entropyWeights_T }: TrainingSequence, t: number, temperature: number): number {
    const weight = entropyWeights_T?.[t] ?? 0;
    const previous = tokens[t - 1] ?? 0;
    const row = this.row(previous, temperature);
    const logTotal = Math.log(row.reduce((sum, logit) => sum + Math.exp(logit), 0));
    const logs = row.map((logit) => logit - logTotal);
    const entropy = -logs.reduce((sum, log) => sum + Math.exp(log) * log, 0);
    logs.forEach((log, j) => {
      const index = previous * this.vocabulary + j;
      this.gradient[index] = (this.gradient[index] ?? 0) + (weight * Math.exp(log) * (log + entropy)) / temperature;
    });
    return weight * entropy;
  }
}

/** One token's loss term, and its derivative with respect to the token's log-prob. */
function tokenLoss(sequence: TrainingSequence, t: number, logProb: number, loss: Loss): [number, number] {
  const weight = sequence.weights_T[t] ?? 0;
  if (loss.kind !== "clipped-token") return [weight * logProb, weight];
  if (weight === 0) return [0, 0];
  const advantage = sequence.advantages_T?.[t] ?? 0;
  const ratio = Math.exp(logProb - (sequence.behaviorLogProbs_T?.[t] ?? 0));
  const clipped = (advantage > 0 && ratio > 1 + loss.clipHigh) || (advantage < 0 && ratio < 1 - loss.clipLow);
  const used = clipped ? (advantage > 0 ? 1 + loss.clipHigh : 1 - loss.clipLow) : ratio;
  return [-weight * used * advantage, clipped ? 0 : -weight * ratio * advantage];
}
