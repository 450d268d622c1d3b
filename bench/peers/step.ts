/**
 * @file One GRPO step of a LoRA adapter on our engine: open a sampler on the current adapter, sample K rollouts of every question, reward them, and train
 * on all of them once. As a process (laps.ts): `step.js <work.json> <model folder>`.
 */
import { pathToFileURL } from "node:url";
import { groupAdvantages } from "../../core/mgrpo/advantage.ts";
import { mean, sum } from "../../core/statistics.ts";
import {
  type CheckpointFiles,
  openSampler,
  openTrainer,
  readCheckpoint,
  type Sample,
  type Sampler,
  type Trainer,
  type TrainingSequence,
  updated,
  withLora,
} from "../../engine/index.ts";
import { answerLaps, type Lap, readWork } from "./laps.ts";
import { rewardOf, type Work } from "./work.ts";

/** Samples new tokens after a prompt, never ending early. */
export function sampleAfter(sampler: Sampler, tokens: readonly number[], maxTokens: number, sequence: string) {
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  return sampler.sample({ sequence, tokens, maxTokens, stop: [], sampling, stream: ["peers", sequence] });
}

export const entropyOf = (samples: readonly Sample[]): number => -mean(samples.flatMap(({ logProbs }) => logProbs));

export interface Stepper {
  step(lap: number): Promise<Lap>;
  close(): Promise<void>;
}

/** One trainer for all steps, and a new sampler for each. */
export async function openStepper(base: CheckpointFiles, work: Work): Promise<Stepper> {
  const { threads, prompts, rollouts, newTokens, optimizer } = work;
  const contextTokens = Math.max(...prompts.map(({ tokens }) => tokens.length)) + newTokens;
  const options = { threads, slots: prompts.length * rollouts, contextTokens, dedicated: true };
  let checkpoint = withLora(base, "base", ["peers", work.seed], work.lora);
  const trainer = await openTrainer(checkpoint, options);
  return {
    async step(lap) {
      const start = performance.now();
      const sampler = await openSampler(checkpoint, options);
      const groups = await sampleGroups(sampler, work, lap);
      await sampler.close();
      const sampled = performance.now();
      await train(trainer, work, groups);
      await trainer.optimizerStep(optimizer, 1 / prompts.length);
      checkpoint = updated(checkpoint, await trainer.save());
      const end = performance.now();
      const samples = groups.flat();
      return {
        seconds: (end - start) / 1000,
        samplingSeconds: (sampled - start) / 1000,
        sampledTokens: sum(samples.map(({ tokens }) => tokens.length)),
        entropy: entropyOf(samples),
      };
    },
    close: () => trainer.close(),
  };
}

/** Per question, its K rollouts. */
function sampleGroups(sampler: Sampler, { prompts, rollouts, newTokens }: Work, lap: number): Promise<Sample[][]> {
  const rollOut = (tokens: readonly number[], name: string) => sampleAfter(sampler, tokens, newTokens, name);
  return Promise.all(
    prompts.map(({ tokens }, q) =>
      Promise.all(Array.from({ length: rollouts }, (_, k) => rollOut(tokens, `${lap}/${q}/${k}`))),
    ),
  );
}

async function train(trainer: Trainer, { prompts, clip }: Work, groups: readonly Sample[][]): Promise<void> {
  const batch = groups.flatMap((group, q) => trainingSequences(prompts[q]?.tokens ?? [], group));
  await trainer.forwardBackward(batch, { kind: "clipped-token", clipLow: clip.low, clipHigh: clip.high }, 1);
}

/** Advantages are rewards normalized by their group's mean and standard deviation; all sampled tokens of a question weigh the same. */
export function trainingSequences(prompt: readonly number[], group: readonly Sample[]): TrainingSequence[] {
  const rewards_K = group.map(({ tokens }) => rewardOf(tokens));
  const weights_K = group.map(() => 1 / group.length);
  const { advantages_N } = groupAdvantages(rewards_K, weights_K, { advantageScale: "std", epsilon: 1e-4 });
  const sampledTokens = sum(group.map(({ tokens }) => tokens.length));
  return group.map(({ tokens, logProbs }, k) => {
    const after = (values: readonly number[]) => Float32Array.from([...prompt.map(() => 0), ...values]);
    return {
      tokens: [...prompt, ...tokens],
      weights_T: after(tokens.map(() => 1 / sampledTokens)),
      advantages_T: after(tokens.map(() => advantages_N[k] ?? 0)),
      behaviorLogProbs_T: after(logProbs),
    };
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [, , work = "", model = ""] = process.argv;
  const stepper = await openStepper(await readCheckpoint(model), readWork(work));
  await answerLaps((lap) => stepper.step(lap));
  await stepper.close();
}
