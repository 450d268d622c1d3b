/**
 * @file Prefix trees that are computed wrongly are refused (engine/compiled/training/tree-check.ts); trees that are computed correctly are
 * not. The check does not change the gradient.
 */
import { afterEach, expect, test, vi } from "vitest";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import { type Feeds, GraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { LAST_GRADIENT } from "../../engine/compiled/graphs/layered.ts";
import { openLaneTrainer } from "../../engine/compiled/training/lane-trainer.ts";
import { causalMask } from "../../engine/model/positions.ts";
import { branchingRollouts } from "../fixtures/branching-rollouts.ts";
import { LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };

afterEach(() => {
  vi.restoreAllMocks();
});

/** Changes the inputs of the graphs that compute trees. */
function breakTrees(change: (feeds: Feeds) => Feeds): void {
  const { run } = GraphSession.prototype;
  vi.spyOn(GraphSession.prototype, "run").mockImplementation(function (this: GraphSession, lengths, feeds, ...rest) {
    const { mask } = feeds;
    return run.call(this, lengths, mask?.dims.length === 4 ? change(feeds) : feeds, ...rest);
  });
}

/** Every token attends to all tokens before it in its row, other branches included. */
const seesAll = ({ mask, ...others }: Feeds): Feeds => {
  const [rows = 0, , tokens = 0] = mask?.dims ?? [];
  const causal = Array.from({ length: rows }, () => Array.from(causalMask(tokens))).flat();
  return { ...others, mask: tensor(Float32Array.from(causal), [rows, 1, tokens, tokens]) };
};
/** Every token is at position 0. */
const unrotated = ({ cos, ...others }: Feeds): Feeds => {
  const { dims = [], size = 0 } = cos ?? {};
  return { ...others, cos: tensor(new Float32Array(size).fill(1), dims), sin: tensor(new Float32Array(size), dims) };
};
const onlyBackward = (change: (feeds: Feeds) => Feeds) => (feeds: Feeds) =>
  LAST_GRADIENT in feeds ? change(feeds) : feeds;
/** A token that predicts several tokens gets the gradient of all of them but one. */
const dropsPredictions = (feeds: Feeds): Feeds => {
  const { inverseRows, mask, targets } = feeds;
  if (!inverseRows || !mask || !targets) return feeds;
  const gathers = inverseRows.size / ((mask.dims[0] ?? 0) * (mask.dims[2] ?? 0));
  const kept = Int32Array.from(inverseRows.data as Int32Array, (row, i) => (i % gathers === 1 ? targets.size : row));
  return { ...feeds, inverseRows: tensor(kept, inverseRows.dims) };
};

const rollouts = branchingRollouts(TINY.vocabulary);
const open = (files: Map<string, Uint8Array>, prefixTrees = true) =>
  openLaneTrainer(files, { ...OPTIONS, microBatchTokens: 256, provider: "cpu", prefixTrees });
const all = tinyCheckpoint(TINY, 3);
const adapter = tinyAdapter(TINY, LORA, 3);

test.each([
  ["the mask", all, seesAll, "log-prob"],
  ["positions", all, unrotated, "log-prob"],
  ["the mask, under an adapter", adapter, seesAll, "log-prob"],
  // In the following, only the gradient is wrong.
  ["the mask of the backward pass", adapter, onlyBackward(seesAll), "gradient"],
  ["positions of the backward pass", adapter, onlyBackward(unrotated), "gradient"],
  ["predictions after the same token", all, dropsPredictions, "gradient"],
])("trees that are computed from a wrong input are refused: %s", async (_name, files, change, found) => {
  breakTrees(change);
  const refused = new RegExp(`prefix trees: the ${found} of .*: set engine.prefixTrees to false`);
  await expect(open(files).forwardBackward(rollouts, CLIPPED, 0.9)).rejects.toThrow(refused);
});

/** Rollouts with positive advantages whose tokens all have this ratio, up to rounding. */
async function rolloutsAt(ratio: number): Promise<TrainingSequence[]> {
  const logProbs = await open(adapter, false).logProbs(
    rollouts.map(({ tokens }) => tokens),
    0.9,
  );
  return rollouts.map((rollout, k) => {
    const advantages_T = new Float32Array(rollout.tokens.length).fill(1);
    return {
      ...rollout,
      advantages_T,
      behaviorLogProbs_T: (logProbs[k] ?? new Float32Array()).map((at) => at - Math.log(ratio)),
    };
  });
}

test("a wrong mask of the backward pass is refused even if all tokens are clipped and have no gradient", async () => {
  const clipped = await rolloutsAt(2);
  breakTrees(onlyBackward(seesAll));
  await expect(open(adapter).forwardBackward(clipped, CLIPPED, 0.9)).rejects.toThrow(/prefix trees: the gradient/);
});

test("trees are accepted if ratios are at the edge of the clip range, where rounding decides which are clipped", async () => {
  const { logProbs } = await open(adapter).forwardBackward(await rolloutsAt(1.28), CLIPPED, 0.9);
  expect(logProbs).toHaveLength(rollouts.length);
});

test("rows that wrongly share a mask are refused, even if a single row passed the check before", async () => {
  const trainer = open(all);
  // The second row gets the first one's mask.
  breakTrees(({ mask, ...others }) => {
    const { data, dims = [] } = mask ?? {};
    const masks = Float32Array.from(data as Float32Array);
    if (dims[0] === 2) masks.copyWithin(masks.length / 2, 0, masks.length / 2);
    return { ...others, mask: tensor(masks, dims) };
  });
  const one = rollouts.slice(0, 8);
  await trainer.forwardBackward(one, CLIPPED, 0.9);
  // The other question gets another first token, as if it had another system message, so the two share no row.
  const other = rollouts
    .slice(8)
    .map((rollout) => ({ ...rollout, tokens: [1 - ((rollout.tokens[0] ?? 0) % 2), ...rollout.tokens.slice(1)] }));
  await expect(trainer.forwardBackward([...one, ...other], CLIPPED, 0.9)).rejects.toThrow(/prefix trees: the/);
});

test("the pass that is checked computes the same gradient as later ones, bit for bit", async () => {
  const trainer = open(adapter);
  const gradients: Float32Array[] = [];
  for (let pass = 0; pass < 2; pass++) {
    await trainer.forwardBackward(rollouts, CLIPPED, 0.9);
    gradients.push(await trainer.takeGradient());
  }
  expect(gradients[0]?.some((value) => value !== 0)).toBe(true);
  expect(gradients[0]).toEqual(gradients[1]);
});
