/** @file The bigram softmax of toy-trainer.ts as a policy engine with AdamW, whose checkpoints hold its optimizer state. */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, PolicyEngine, Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { freshAdamState } from "../../engine/checkpoint/adam-state.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { adamStep } from "../../engine/model/adamw.ts";
import { endsWithStop, sampleToken } from "../../engine/model/token-sampling.ts";
import { ToyTrainer } from "./toy-trainer.ts";

const WEIGHTS = "model.safetensors";
const ADAM = "optimizer.safetensors";

/** A random bigram model, and a config with its vocabulary. */
export function bigramFiles(vocabulary: number, seed = 1): Map<string, Uint8Array> {
  const { uniform } = stream("bigram", seed);
  const logits = Float32Array.from({ length: vocabulary ** 2 }, () => 2 * uniform() - 1);
  const config = new TextEncoder().encode(JSON.stringify({ vocab_size: vocabulary }));
  return new Map([
    ["config.json", config],
    [WEIGHTS, new Uint8Array(logits.buffer)],
  ]);
}

export const bigramEngine: PolicyEngine = {
  async openTrainer(files) {
    let { toy, adam } = open(files);
    return {
      logProbs: (sequences, temperature) => toy.logProbs(sequences, temperature),
      forwardBackward: (batch, loss, temperature) => toy.forwardBackward(batch, loss, temperature),
      async optimizerStep(config: OptimizerConfig, scale) {
        const weights = new Float32Array(toy.logits);
        const gradientNorm = adamStep(weights, new Float32Array(toy.gradient), adam, config, scale);
        toy.logits = new Float64Array(weights);
        toy.gradient.fill(0);
        return { gradientNorm };
      },
      async save() {
        return new Map([
          [WEIGHTS, bytesOf(new Float32Array(toy.logits))],
          [ADAM, bytesOf(joined(adam.step, adam.m, adam.v))],
        ]);
      },
      async load(from) {
        ({ toy, adam } = open(from));
      },
      async close() {},
    } satisfies Trainer;
  },
  async openSampler(files) {
    const { toy } = open(files);
    return {
      async sample({ tokens: prompt, maxTokens, stop, sampling, stream: name }) {
        const { uniform } = stream(...name);
        const tokens: number[] = [];
        const logProbs: number[] = [];
        let last = prompt.at(-1) ?? 0;
        while (tokens.length < maxTokens) {
          const probabilities = Float32Array.from({ length: toy.vocabulary }, (_, next) =>
            Math.exp(toy.logProbsOf([last, next], sampling.temperature || 1)[1] ?? 0),
          );
          const drawn = sampleToken(probabilities, sampling, uniform);
          tokens.push(drawn.token);
          logProbs.push(drawn.logProb);
          last = drawn.token;
          if (endsWithStop(tokens, stop)) return { tokens, logProbs, stop: "stop" };
        }
        return { tokens, logProbs, stop: "length" };
      },
      release() {},
      async close() {},
    };
  },
};

const bytesOf = (values: Float32Array) => new Uint8Array(values.buffer);
const joined = (step: number, m: Float32Array, v: Float32Array): Float32Array => {
  const values = new Float32Array(1 + m.length + v.length);
  values[0] = step;
  values.set(m, 1);
  values.set(v, 1 + m.length);
  return values;
};
const floatsOf = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);

function open(files: CheckpointFiles) {
  const weights = files.get(WEIGHTS);
  if (!weights) throw new MgrpoError("checkpoint-damaged", `${WEIGHTS} is missing`);
  const logits = floatsOf(wholeFile(weights));
  const adam = freshAdamState(logits.length);
  const stored = files.get(ADAM);
  if (stored) {
    const values = floatsOf(wholeFile(stored));
    adam.step = values[0] ?? 0;
    adam.m.set(values.subarray(1, 1 + logits.length));
    adam.v.set(values.subarray(1 + logits.length));
  }
  return { toy: new ToyTrainer(Math.round(Math.sqrt(logits.length)), logits), adam };
}
