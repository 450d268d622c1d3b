/**
 * @file What the check of prefix trees compares and refuses. It compares the first trees of each shape with their sequences computed separately,
 * gradients included. The tests compute nothing: their passes return what they are given. wrong-trees.test.ts runs real passes.
 */
import { describe, expect, test } from "vitest";
import type { EngineOptions, Loss, TrainingSequence } from "../../core/ports.ts";
import type { MicroBatch } from "../../engine/compiled/training/batch-plan.ts";
import type { Passes } from "../../engine/compiled/training/passes.ts";
import { plannedPasses } from "../../engine/compiled/training/planned-passes.ts";
import { OPTIONS, TINY } from "./tiny.ts";

const LINEAR: Loss = { kind: "linear" };
const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };
const options: EngineOptions = { ...OPTIONS, microBatchTokens: 512 };

/** Eight sequences: a shared prompt of `length` tokens, then three tokens each. In a tree, the prompt and 8 * 2 tokens are computed. */
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
  /** What a sequence adds to the first element of the gradient; 1 if absent. */
  readonly gradient?: (sequence: TrainingSequence) => number;
}

/** Passes that return one result for trees and another for sequences computed separately. */
function passesWith(inTrees: Result, separate: Result, limitsPredictions = false) {
  const calls: string[] = [];
  const sums = new Set<Float32Array>();
  const call = (pass: string, rows: readonly unknown[], [first]: readonly MicroBatch[]) => {
    const isTree = first?.trees !== undefined;
    calls.push(`${pass} of ${rows.length} ${isTree ? `in ${first.trees.length}` : "separately"}`);
    return isTree ? inTrees : separate;
  };
  const passes: Passes = {
    limitsPredictions,
    async logProbs(sequences, _temperature, plan) {
      const { logProb } = call("logProbs", sequences, plan);
      return sequences.map(({ length }) => new Float32Array(length).fill(logProb));
    },
    async forwardBackward(rows, _loss, _temperature, plan, gradient) {
      const { logProb, gradient: term = () => 1 } = call("gradient", rows, plan);
      sums.add(gradient);
      for (const row of rows) gradient[0] = (gradient[0] ?? 0) + term(row);
      return { loss: 0, logProbs: rows.map(({ tokens }) => new Float32Array(tokens.length).fill(logProb)) };
    },
  };
  const gradient = new Float32Array(1);
  return {
    calls,
    sums,
    gradient,
    checked: (more = {}) => plannedPasses(passes, { config: TINY, gradient }, { ...options, ...more }),
  };
}

const CHECK = ["gradient of 8 in 1", "gradient of 8 separately"];

describe("what is compared", () => {
  test("the first trees of each shape (pass, one row or several, length) are compared; later batches are computed once", async () => {
    const { calls, checked, gradient } = passesWith({ logProb: -2 }, { logProb: -2.0001 });
    const passes = checked();
    const callsOf = async (work: Promise<unknown>) => {
      await work;
      return calls.splice(0);
    };
    expect(await callsOf(passes.logProbs([[1, 2, 3]], 1))).toEqual(["logProbs of 1 separately"]);
    expect(await callsOf(passes.forwardBackward(batch, LINEAR, 1))).toEqual([...CHECK, "gradient of 8 in 1"]);
    // The check adds nothing to this gradient.
    expect(gradient[0]).toBe(8);
    expect(await callsOf(passes.forwardBackward(batch, LINEAR, 1))).toEqual(["gradient of 8 in 1"]);
    const scored = ["logProbs of 8 in 1", "logProbs of 8 separately", "logProbs of 8 in 1"];
    expect(await callsOf(passes.logProbs(tokensOf(batch), 1))).toEqual(scored);
    // A tree of 136 tokens, after one of 76.
    expect(await callsOf(passes.forwardBackward(groupOf(120), LINEAR, 1))).toEqual([...CHECK, "gradient of 8 in 1"]);
    // Three trees in a micro-batch, of which two are compared.
    const three = [0, 10, 20].flatMap((first) => groupOf(60, first));
    const check = ["gradient of 16 in 2", "gradient of 16 separately"];
    expect(await callsOf(passes.forwardBackward(three, LINEAR, 1))).toEqual([...check, "gradient of 24 in 3"]);
    expect(await callsOf(passes.forwardBackward(three, LINEAR, 1))).toEqual(["gradient of 24 in 3"]);
  });

  test("the entropy bonus, which has a graph of its own, is checked separately from the other losses", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2 });
    const passes = checked();
    const entropic = batch.map((one) => ({ ...one, entropyWeights_T: one.weights_T }));
    for (const kind of ["linear", "linear-entropy", "linear-entropy"] as const) {
      await passes.forwardBackward(entropic, { kind }, 1);
    }
    expect(calls.filter((call) => call.endsWith("separately"))).toHaveLength(2);
  });

  test("every shape of a batch is compared, with a single extra gradient", async () => {
    const { calls, sums, checked } = passesWith({ logProb: -2 }, { logProb: -2 });
    await checked().forwardBackward([...groupOf(60), ...groupOf(120, 10)], LINEAR, 1);
    expect(calls.filter((call) => call.endsWith("separately"))).toHaveLength(2);
    expect(sums.size).toBe(2);
  });

  test("nothing is compared without trees", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 });
    await checked({ prefixTrees: false }).forwardBackward(batch, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 separately"]);
  });

  // After any of these, the next batch is checked.
  test.each([
    ["nothing has a weight", groupOf(60, 0, () => 0)],
    ["equal sequences are a tree without branches", batch.map(() => batch[0] as TrainingSequence)],
    ["only tokens before the branches have a weight", groupOf(60, 0, (t) => (t < 60 ? 1 : 0))],
    // A last token predicts nothing, so it has no node.
    [
      "the others, without their last tokens, are prefixes of the first",
      batch.map((one, k) => (k === 0 ? one : cut(one, 61))),
    ],
  ])("a tree that proves nothing is not compared: %s", async (_name, first) => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 });
    const passes = checked();
    await passes.forwardBackward(first, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 in 1"]);
    await expect(passes.forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/log-prob of token 60 is -2 /);
  });

  test("a tree whose advantages are 0 has no gradient and is not compared", async () => {
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2 });
    const zeros = (length: number) => new Float32Array(length);
    const flat = batch.map((one) => {
      const { length } = one.tokens;
      return { ...one, advantages_T: zeros(length), behaviorLogProbs_T: zeros(length) };
    });
    await checked().forwardBackward(flat, CLIPPED, 1);
    expect(calls).toEqual(["gradient of 8 in 1"]);
  });

  test("where predictions limit trees, a batch with too many for a tree is not compared", async () => {
    // A tree may have 200 predictions, as many as the largest micro-batch has tokens. Two of these sequences have 240.
    const long = groupOf(117, 0, () => 1);
    const { calls, checked } = passesWith({ logProb: -2 }, { logProb: -2.5 }, true);
    const passes = checked({ microBatchTokens: 64 });
    await passes.forwardBackward(long, LINEAR, 1);
    expect(calls).toEqual(["gradient of 8 separately"]);
    await expect(passes.forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
  });
});

const cut = ({ tokens, weights_T }: TrainingSequence, length: number): TrainingSequence => ({
  tokens: tokens.slice(0, length),
  weights_T: weights_T.slice(0, length),
});

describe("what is refused", () => {
  test.each([-2.5, Number.NaN])("a log-prob of -2 in a tree and %s separately is refused", async (logProb) => {
    const { checked } = passesWith({ logProb: -2 }, { logProb });
    await expect(checked().forwardBackward(batch, LINEAR, 1)).rejects.toMatchObject({
      code: "engine-unsupported",
      message: expect.stringMatching(/log-prob of token 60 is -2 .* set engine.prefixTrees to false/),
    });
    await expect(checked().logProbs(tokensOf(batch), 1)).rejects.toThrow(/log-prob of token 1 is -2 /);
  });

  test.each([
    [1.001, undefined],
    [1.01, "differs from that without trees by 0.028 of the root sum square of the sequences' gradient norms"],
    [Number.NaN, "differs from that without trees by NaN of the root sum square of the sequences' gradient norms"],
  ])("a gradient of %s in a tree and 1 separately has the fault: %s", async (inTree, fault) => {
    // 8 * 0.01 against sqrt(8) is 0.028.
    const { checked } = passesWith({ logProb: -2, gradient: () => inTree }, { logProb: -2 });
    const pass = checked().forwardBackward(batch, LINEAR, 1);
    if (fault === undefined) return expect(await pass).toMatchObject({ loss: 0 });
    const message = `prefix trees: the gradient of 8 sequences in trees ${fault}: set engine.prefixTrees to false and report the model`;
    await expect(pass).rejects.toMatchObject({ code: "engine-unsupported", message });
  });

  test("on CUDA, which multiplies in TF32, only differences beyond its rounding are refused", async () => {
    const near = { logProb: -2.005, gradient: () => 1.005 };
    const passes = (provider: EngineOptions["provider"], inTrees: Result) =>
      passesWith(inTrees, { logProb: -2 }).checked({ provider }).forwardBackward(batch, LINEAR, 1);
    await expect(passes("cpu", near)).rejects.toThrow(/prefix trees/);
    expect(await passes("cuda", near)).toMatchObject({ loss: 0 });
    await expect(passes("cuda", { ...near, logProb: -2.02 })).rejects.toThrow(/log-prob of token 60/);
    await expect(passes("cuda", { ...near, gradient: () => 1.02 })).rejects.toThrow(/gradient of 8 sequences/);
  });

  test("an error in gradients that cancel out is measured against the terms that cancel", async () => {
    const signOf = ({ tokens }: TrainingSequence) => ((tokens.at(-1) ?? 0) % 2 ? 1 : -1);
    const withError = (error: number) =>
      passesWith({ logProb: -2, gradient: (one) => signOf(one) + error }, { logProb: -2, gradient: signOf }).checked();
    await withError(1e-6).forwardBackward(batch, LINEAR, 1);
    await expect(withError(1e-2).forwardBackward(batch, LINEAR, 1)).rejects.toThrow(/gradient of 8 sequences/);
  });

  test("trees whose log-probs and gradient are not finite are accepted if those of separate sequences are not either", async () => {
    const notFinite = { logProb: Number.NaN, gradient: () => Number.NaN };
    const { calls, checked } = passesWith(notFinite, notFinite);
    const passes = checked();
    for (let pass = 0; pass < 2; pass++) {
      await passes.forwardBackward(batch, LINEAR, 1);
      // Nothing was proved, so the next batch is compared too.
      expect(calls.splice(0).slice(0, 2)).toEqual(CHECK);
    }
  });
});
