/**
 * @file A trainer on several lanes, each with a copy of the weights: every lane takes the gradient of its part of a batch; at the
 * optimizer's step the first lane adds the gradients up, always in the same order, updates, and the others copy its weights. The
 * optimizer's state lives in the first lane alone.
 */
import type { ForwardBackward, Trainer } from "../../../core/ports.ts";
import { deal } from "../lanes.ts";
import type { LaneTrainer } from "./lane-trainer.ts";

export function dataParallel(lanes: readonly LaneTrainer[]): Trainer {
  const [first, ...others] = lanes;
  if (!first) throw new RangeError("a trainer needs a lane");

  /** Each lane with the positions of its part of a batch; lanes without any are left out. */
  const parts = (lengths: readonly number[]) =>
    deal(lengths, lanes.length).flatMap((members, i) => {
      const lane = lanes[i];
      return lane && members.length > 0 ? [{ lane, members }] : [];
    });
  const pick = <T>(items: readonly T[], members: readonly number[]) =>
    members.flatMap((member) => items.slice(member, member + 1));
  const merge = (into: Float32Array[], members: readonly number[], logProbs: readonly Float32Array[]) => {
    members.forEach((member, i) => {
      into[member] = logProbs[i] ?? new Float32Array();
    });
  };

  return {
    async logProbs(sequences, temperature) {
      const merged: Float32Array[] = [];
      const work = parts(sequences.map((tokens) => tokens.length)).map(async ({ lane, members }) => {
        merge(merged, members, await lane.logProbs(pick(sequences, members), temperature));
      });
      await Promise.all(work);
      return merged;
    },

    async forwardBackward(batch, loss, temperature): Promise<ForwardBackward> {
      const work = parts(batch.map(({ tokens }) => tokens.length)).map(async ({ lane, members }) => ({
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

    async optimizerStep(config, scale = 1) {
      const gradients = await Promise.all(others.map((lane) => lane.takeGradient()));
      const done = await first.optimizerStep(config, scale, gradients);
      if (others.length > 0) {
        const weights = await first.weights();
        await Promise.all(others.map((lane) => lane.setWeights(weights)));
      }
      return done;
    },
    save: () => first.save(),
    async load(files) {
      await Promise.all(lanes.map((lane) => lane.load(files)));
    },
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
  };
}
