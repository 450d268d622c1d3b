/**
 * @file The check of prefix trees: the first trees of each shape are compared with their sequences apart, gradients included, and graphs that compute
 * trees wrongly are refused. Some tests compute nothing: their passes return what they are given.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import type { EngineOptions, Loss, TrainingSequence } from "../../core/ports.ts";
import { type Feeds, GraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { LAST_GRADIENT } from "../../engine/compiled/graphs/layered.ts";
import type { MicroBatch } from "../../engine/compiled/training/batch-plan.ts";
import { openLaneTrainer } from "../../engine/compiled/training/lane-trainer.ts";
import type { Passes } from "../../engine/compiled/training/passes.ts";
import { plannedPasses } from "../../engine/compiled/training/planned-passes.ts";
import { causalMask } from "../../engine/model/positions.ts";
import { branchingRollouts } from "../fixtures/branching-rollouts.ts";
import { LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

const LINEAR: Loss = { kind: "linear" };
const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };
const options: EngineOptions = { ...OPTIONS, microBatchTokens: 512 };

/** Eight sequences with a prompt of `length` tokens, and three tokens of their own. In a tree, the prompt and 8 * 2 tokens are computed. */
function groupOf(length: number, first = 0, weightOf = (t: number) => (t < length ? 0 : 1)): TrainingSequence[] {
  const prompt = Array.from({ length }, (_, t) => (first + t) % 30);
  return Array.from({ length: 8 }, (_, k) => {
    const tokens = [...prompt, k, k, k];
    return { tokens, weights_T: Float32Array.from(tokens, (_x, t) => weightOf(t)) };
  });
}
const batch = groupOf(60);
const tokensOf = (sequences: readonly TrainingSequence[]) => sequences.map(({ tokens }) => tokens);

interface Result {
  readonly logProb: number;
  /** By the sum of the weights of a sequence, the first element of the gradient. */
  readonly gradient?: (sequence: TrainingSequence) => number;
}

/** Passes that return one result for trees and another for sequences apart. */
function passesWith(inTrees: Result, apart: Result, limitsPredictions = false) {
  const calls: string[] = [];
  const call = (pass: string, rows: readonly unknown[], [first]: readonly MicroBatch[]) => {
    const isTree = first?.trees !== undefined;
    calls.push(`${pass} of ${rows.length} ${isTree ? `in ${first.trees.length}` : "apart"}`);
    return isTree ? inTrees : apart;
  };
  const passes: Passes = {
    limitsPredictions,
    async logProbs(sequences, _temperature, plan) {
      const { logProb } = call("logProbs", sequences, plan);
      return sequences.map(({ length }) => new Float32Array(length).fill(logProb));
    },
    async forwardBackward(rows, _loss, _temperature, plan, gradient) {
      const { logProb, gradient: term = () => 1 } = call("gradient", rows, plan);
      for (const row of rows) gradient[0] = (gradient[0] ?? 0) + term(row);
      return { loss: 0, logProbs: rows.map(({ tokens }) => new Float32Array(tokens.length).fill(logProb)) };
    },
  };
  const gradient = new Float32Array(1);
  return {
    calls,
    gradient,
    checked: (more = {}) => plannedPasses(passes, { config: TINY, gradient }, { ...options, ...more }),
  };
}

const CHECK = ["gradient of 8 in 1", "gradient of 8 apart"];

describe("what is compared", () => {
  test("the first trees of each pass, number of rows and length; later batches are computed once", async () => {
    const { calls, checked, gradient } = passesWith({ logProb: -2 }, { logProb: -2.0001 });
    const passes = checked();
    const callsOf = async (work: Promise<unknown>) => {
      await work;
      return calls.splice(0);
    };
    expect(await callsOf(passes.logProbs([[1, 2, 3]], 1))).toEqual(["logProbs of 1 apart"]);
    expect(await callsOf(passes.forwardBackward(batch, LINEAR, 1))).toEqual([...CHECK, "gradient of 8 in 1"]);
    // The check's own gradients do not count.
    expect(gradient[0]).toBe(8);
    expect(await callsOf(passes.forwardBackward(batch, LINEAR, 1))).toEqual(["gradient of 8 in 1"]);
    const scored = ["logProbs of 8 in 1", "logProbs of 8 apart", "logProbs of 8 in 1"];
    expect(await callsOf(passes.logProbs(tokensOf(batch), 1))).toEqual(scored);
    // A tree of 136 tokens, after one of 76.
    expect(await callsOf(passes.forwardBackward(groupOf(120), LINEAR, 1))).toEqual([...CHECK, "gradient of 8 in 1"]);
    // Three trees in a micro-batch, of which two are compared.
    const three = [0, 10, 20].flatMap((first) => groupOf(60, first));
    const check = ["gradient of 16 in 2", "gradient of 16 apart"];
    expect(await callsOf(passes.forwardBackward(three, LINEAR, 1))).toEqual([...check, "gradient of 24 in 3"]);
    expect(await callsOf(passes.forwardBackward(three, LINEAR, 1))).toEqual(["gradient of 24 in 3"]);
  });

  test("the entropy bonus, which has a graph of its own, is checked apart from the other losses", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2 });
    const passes = checked();
    const entropic = batch.map((one) => ({ ...one, entropyWeights_T: one.weights_T }));
    for (const kind of ["linear", "linear-entropy", "linear-entropy"] as const) {
      await passes.forwardBackward(entropic, { kind }, 1);
    }
    expect(calls.filter((call) => call.endsWith("apart"))).toHaveLength(2);
  });

  test("nothing, without trees", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 });
    await checked({ prefixTrees: false }).forwardBackward(batch, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 apart"]);
  });

  // After any of these, the next batch is checked.
  test.each([
    ["nothing has a weight", groupOf(60, 0, () => 0)],
    ["equal sequences are a tree without branches", batch.map(() => batch[0] as TrainingSequence)],
    ["weights are before the branches alone", groupOf(60, 0, (t) => (t < 60 ? 1 : 0))],
    // The last token predicts nothing, so it has no node.
    ["the others begin the first one", batch.map((one, k) => (k === 0 ? one : cut(one, 61)))],
  ])("not a tree that proves nothing: %s", async (_name, first) => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 });
    const passes = checked();
    await passes.forwardBackward(first, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 in 1"]);
    await expect(passes.forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/log-prob of token 60 is -2 /);
  });

  test("not a tree whose advantages are 0: it has no gradient", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2 });
    const zeros = (length: number) => new Float32Array(length);
    const flat = batch.map((one) => {
      const { length } = one.tokens;
      return { ...one, advantages_T: zeros(length), behaviorLogProbs_T: zeros(length) };
    });
    await checked().forwardBackward(flat, CLIPPED, 1);
    expect(calls).toEqual(["gradient of 8 in 1"]);
  });

  test("not a batch with too many predictions for a tree, where they limit trees", async () => {
    // A tree may have 200 predictions, as many as the largest micro-batch has tokens. Two of these sequences have 240.
    const long = groupOf(117, 0, () => 1);
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 }, true);
    const passes = checked({ microBatchTokens: 64 });
    await passes.forwardBackward(long, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 apart"]);
    await expect(passes.forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
  });
});

const cut = ({ tokens, weights_T }: TrainingSequence, length: number): TrainingSequence => ({
  tokens: tokens.slice(0, length),
  weights_T: weights_T.slice(0, length),
});

describe("what is refused", () => {
  test.each([-2.5, Number.NaN])("a log-prob of -2 in a tree and %s apart", async (logProb) => {
    const { checked } = passesWith({ logProb: -2 }, { logProb });
    await expect(checked().forwardBackward(batch, LINEAR, 1)).rejects.toMatchObject({
      code: "engine-unsupported",
      message: expect.stringMatching(/log-prob of token 60 is -2 .* set engine.prefixTrees to false/),
    });
    await expect(checked().logProbs(tokensOf(batch), 1)).rejects.toThrow(/log-prob of token 1 is -2 /);
  });

  test.each([
    [1.001, undefined],
    [1.01, "differs from theirs apart by 0.028 of its norm"],
    [Number.NaN, "differs from theirs apart by NaN of its norm"],
  ])("a gradient of %s in a tree and 1 apart: %s", async (inTree, fault) => {
    // 8 * 0.01 against sqrt(8) is 0.028.
    const { checked } = passesWith({ logProb: -2, gradient: () => inTree }, { logProb: -2 });
    const pass = checked().forwardBackward(batch, LINEAR, 1);
    if (fault === undefined) return expect(await pass).toMatchObject({ loss: 0 });
    const message = `prefix trees: the gradient of 8 sequences in trees ${fault}: set engine.prefixTrees to false and report the model`;
    await expect(pass).rejects.toMatchObject({ code: "engine-unsupported", message });
  });

  test("opposite gradients that leave rounding alone are measured by what they cancel", async () => {
    const signOf = ({ tokens }: TrainingSequence) => ((tokens.at(-1) ?? 0) % 2 ? 1 : -1);
    const withError = (error: number) =>
      passesWith({ logProb: -2, gradient: (one) => signOf(one) + error }, { logProb: -2, gradient: signOf }).checked();
    await withError(1e-6).forwardBackward(batch, LINEAR, 1);
    await expect(withError(1e-2).forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/gradient of 8 sequences/);
  });

  test("no tree for what sequences apart do too: a gradient that is not finite", async () => {
    const infinite = { logProb: Number.NaN, gradient: () => Number.NaN };
    const { calls, checked } = passesWith(infinite, infinite);
    const passes = checked();
    for (let pass = 0; pass < 2; pass++) {
      await passes.forwardBackward(batch, LINEAR, 1);
      // Nothing was proved, so the next batch is compared too.
      expect(calls.splice(0).slice(0, 2)).toEqual(CHECK);
    }
  });
});

describe("graphs that compute trees wrongly", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** Changes what the graphs of trees are given. */
  function breakTrees(change: (feeds: Feeds) => Feeds): void {
    const { run } = GraphSession.prototype;
    vi.spyOn(GraphSession.prototype, "run").mockImplementation(function (this: GraphSession, lengths, feeds, ...rest) {
      const { mask } = feeds;
      return run.call(this, lengths, mask?.dims.length === 4 ? change(feeds) : feeds, ...rest);
    });
  }

  /** Every token sees all tokens before it in its row, other branches included. */
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
  const backwardAlone = (change: (feeds: Feeds) => Feeds) => (feeds: Feeds) =>
    LAST_GRADIENT in feeds ? change(feeds) : feeds;
  /** A token that predicts several gets the gradient of all but one. */
  const dropsPredictions = (feeds: Feeds): Feeds => {
    const { inverseRows, mask, targets } = feeds;
    if (!inverseRows || !mask || !targets) return feeds;
    const picks = inverseRows.size / ((mask.dims[0] ?? 0) * (mask.dims[2] ?? 0));
    const kept = Int32Array.from(inverseRows.data as Int32Array, (row, i) => (i % picks === 1 ? targets.size : row));
    return { ...feeds, inverseRows: tensor(kept, inverseRows.dims) };
  };

  const rollouts = branchingRollouts(TINY.vocabulary);
  const open = (files: Map<string, Uint8Array>) =>
    openLaneTrainer(files, { ...OPTIONS, microBatchTokens: 256, provider: "cpu" });
  const all = tinyCheckpoint(TINY, 3);
  const adapter = tinyAdapter(TINY, LORA, 3);

  test.each([
    ["the mask", all, seesAll, "log-prob"],
    ["positions", all, unrotated, "log-prob"],
    ["the mask, under an adapter", adapter, seesAll, "log-prob"],
    // Their log-probs are right.
    ["the mask of the backward pass", adapter, backwardAlone(seesAll), "gradient"],
    ["positions of the backward pass", adapter, backwardAlone(unrotated), "gradient"],
    ["predictions after the same token", all, dropsPredictions, "gradient"],
  ])("%s", async (_name, files, change, found) => {
    breakTrees(change);
    const refused = new RegExp(`prefix trees: the ${found} of .*: set engine.prefixTrees to false`);
    await expect(open(files).forwardBackward(rollouts, CLIPPED, 0.9)).rejects.toThrow(refused);
  });

  test("rows that share a mask, where a single row is right", async () => {
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
    // The other question has another system message, so the two share no row.
    const other = rollouts
      .slice(8)
      .map((rollout) => ({ ...rollout, tokens: [1 - ((rollout.tokens[0] ?? 0) % 2), ...rollout.tokens.slice(1)] }));
    await expect(trainer.forwardBackward([...one, ...other], CLIPPED, 0.9)).rejects.toThrow(/prefix trees: the/);
  });

  test("the gradient that was checked has the bits of later ones", async () => {
    const trainer = open(adapter);
    const gradients: Float32Array[] = [];
    for (let pass = 0; pass < 2; pass++) {
      await trainer.forwardBackward(rollouts, CLIPPED, 0.9);
      gradients.push(await trainer.takeGradient());
    }
    expect(gradients[0]?.some((value) => value !== 0)).toBe(true);
    expect(gradients[0]).toEqual(gradients[1]);
  });
});
