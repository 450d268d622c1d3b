/** @file A whole training step with dual-clip and with CISPO: the compiled engine's weights are within 2e-5 of the eager engine's. */
import { beforeAll, expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openBackend } from "../../engine/eager/backend.ts";
import { openEagerTrainer } from "../../engine/eager/trainer.ts";
import type { TrainingEntry } from "../../gpu-workers/training/train-step.ts";
import { trainAlone } from "../gpu-workers/train-alone.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

beforeAll(() => openBackend("cpu"));

/** Random trajectories of two questions, with random behavior log-probs. */
function batch(): TrainingEntry[] {
  const { integer, uniform } = stream("objective", "batch");
  return [0, 0, 1, 1].map((group, i) => {
    const tokens = Array.from({ length: 9 + i }, () => integer(37));
    const actions: [number, number][] = [
      [2, 5],
      [6, tokens.length],
    ];
    const logProbs = Array.from({ length: tokens.length - 3 }, () => -3.6 - 3 * (uniform() - 0.5));
    const trajectory = { agent: "main", version: 0, tokens, actions, logProbs };
    return { trajectory, group, groupStd: 1, advantage: i % 2 ? -1.4 : 0.9, tokenWeight: 0.5 / logProbs.length };
  });
}

const optimizer = OptimizerConfig.parse({ learningRate: 0.01, epsilon: 1e-3 });

async function weightsAfter(trainer: Trainer, options: object): Promise<Map<string, Float32Array>> {
  const algorithm = AlgorithmConfig.parse(options);
  const config = {
    algorithm,
    optimizer,
    entropyCoefficient: algorithm.entropy?.start ?? 0,
    temperature: 0.9,
    minibatchStream: ["objective"],
  };
  const { stats } = await trainAlone(trainer, [batch()], config);
  expect(stats.clipFraction).toBeGreaterThan(0);
  const bytes = (await trainer.save()).get(MODEL_FILE) ?? expect.fail("no weights");
  await trainer.close();
  return new Map([...readSafetensors(bytes, "model").tensors].map(([name, { values }]) => [name, values]));
}

test.each<object>([{ policyLoss: { kind: "dual-clip", c: 1.5 } }, { policyLoss: { kind: "cispo" } }])(
  "the compiled engine's weights after a step are within 2e-5 of the eager engine's: %o",
  async (options) => {
    const files = tinyCheckpoint();
    const compiled = await weightsAfter(await compiledEngine.openTrainer(files, OPTIONS), options);
    const eager = await weightsAfter(openEagerTrainer(files, OPTIONS, "cpu"), options);
    for (const [name, values] of eager) {
      values.forEach((value, i) => {
        expect(Math.abs(value - (compiled.get(name)?.[i] ?? Number.NaN)), `${name}[${i}]`).toBeLessThan(2e-5);
      });
    }
  },
);
