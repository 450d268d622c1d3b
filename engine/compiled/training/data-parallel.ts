/**
 * @file A trainer on several lanes, each with a copy of the weights. Every lane computes the gradient of its part of a batch. At an optimizer
 * step the first lane sums the gradients, always in the same order, and updates its weights; the others copy them. Only the first lane
 * gets the optimizer's state: the others would hold a copy that nothing reads.
 */
import type { OptimizerConfig } from "../../../core/contracts/agent-config.ts";
import type { ForwardBackward } from "../../../core/ports.ts";
import { saveMethods } from "../../checkpoint/saving.ts";
import { withoutOptimizer } from "../../checkpoint/shards.ts";
import type { LocalTrainer } from "../../model/closable.ts";
import { checkTemperature, checkTrainingSequence } from "../../model/input-checks.ts";
import type { Sequences } from "../../model/prefix-tree.ts";
import type { LaneTrainer } from "./lane-trainer.ts";

/** `assign` splits a batch into `count` lists of batch indices, one per lane. It rejects a batch that the model cannot handle. */
export function dataParallel(
  lanes: readonly LaneTrainer[],
  assign: (sequences: Sequences, count: number) => readonly (readonly number[])[],
): LocalTrainer {
  const [first, ...others] = lanes;
  if (!first) throw new RangeError("a trainer needs at least one lane");

  const parts = (sequences: Sequences, temperature: number) => {
    checkTemperature(temperature);
    return partsOf(lanes, assign(sequences, lanes.length));
  };
  const othersGradients = () => Promise.all(others.map((lane) => lane.takeGradient()));

  return {
    async logProbs(sequences, temperature) {
      const merged: Float32Array[] = [];
      const work = parts(sequences, temperature).map(async ({ lane, members }) => {
        merge(merged, members, await lane.logProbs(pick(sequences, members), temperature));
      });
      await Promise.all(work);
      return merged;
    },

    async forwardBackward(batch, loss, temperature): Promise<ForwardBackward> {
      // Checks the whole batch before any lane adds to its gradient.
      for (const sequence of batch) checkTrainingSequence(sequence, loss);
      const sequences = batch.map(({ tokens }) => tokens);
      const work = parts(sequences, temperature).map(async ({ lane, members }) => ({
        members,
        pass: await lane.forwardBackward(pick(batch, members), loss, temperature),
      }));
      const logProbs: Float32Array[] = [];
      let total = 0;
      for (const { members, pass } of await Promise.all(work)) {
        merge(logProbs, members, pass.logProbs);
        total += pass.loss;
      }
      return { loss: total, logProbs };
    },

    async optimizerStep(config: OptimizerConfig, scale = 1) {
      const result = await first.optimizerStep(config, scale, await othersGradients());
      if (others.length > 0) {
        const weights = await first.weights();
        await Promise.all(others.map((lane) => lane.setWeights(weights)));
      }
      return result;
    },
    gradientNorm: async () => first.gradientNorm(await othersGradients()),
    ...saveMethods((index) => first.savedFile(index)),
    async load(files) {
      // The first lane loads before the others: if it refuses the files, they keep their weights, too.
      await first.load(files);
      await Promise.all(others.map((lane) => lane.load(withoutOptimizer(files))));
    },
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
  };
}

/** Each lane with the batch indices of its part; lanes without work are omitted. */
const partsOf = (lanes: readonly LaneTrainer[], assigned: readonly (readonly number[])[]) =>
  assigned.flatMap((members, i) => {
    const lane = lanes[i];
    return lane && members.length > 0 ? [{ lane, members }] : [];
  });

const pick = <T>(items: readonly T[], members: readonly number[]): T[] =>
  members.flatMap((member) => items.slice(member, member + 1));

function merge(into: Float32Array[], members: readonly number[], logProbs: readonly Float32Array[]): void {
  for (const [i, member] of members.entries()) into[member] = logProbs[i] ?? new Float32Array();
}
