/** @file What every Trainer does, whatever it computes with. */
import { expect, test } from "vitest";
import type { CheckpointFiles, EngineOptions, PolicyEngine, TrainingSequence } from "../../core/ports.ts";

export interface TrainerSubject {
  readonly engine: PolicyEngine;
  /** A small model with a vocabulary of at least 30. */
  readonly files: CheckpointFiles;
  readonly options: EngineOptions;
  /** At which it computes, where it is not any. */
  readonly temperature?: number;
  /** What a version is made of, where its files name it only. */
  stateOf?(saved: CheckpointFiles): CheckpointFiles;
  /** File of what is trained. */
  readonly trained?: string;
  /** A sequence's numbers may differ in their last bits by what is computed beside it. */
  readonly rounds?: boolean;
  /** How well it can learn seven tokens by heart: the least of their log-probs. */
  readonly byHeart?: number;
}

const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1, maxGradientNorm: 1 };

/** Lengths differ, so that padding and grouping are at work. */
const BATCH: TrainingSequence[] = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3], [8, 9, 7, 9, 3], [2]].map((tokens, i) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => (t + i) / 10),
  advantages_T: Float32Array.from(tokens, (_, t) => (t % 2 ? 1 : -0.5)),
  behaviourLogProbs_T: Float32Array.from(tokens, (_, t) => -3 - t / 10),
}));
const CLIPPED = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.3 } as const;

export function trainerContract(subject: TrainerSubject) {
  const { trained = "model.safetensors", byHeart = -0.2 } = subject;
  const open = (options: Partial<EngineOptions> = {}, files = subject.files) =>
    subject.engine.openTrainer(files, { ...subject.options, ...options });
  const tokens = BATCH.map((sequence) => sequence.tokens);
  const temperature = subject.temperature ?? 0.7;
  const stateOf = subject.stateOf ?? ((saved: CheckpointFiles) => saved);

  test("forwardBackward reports the log-probs that logProbs gives, and the loss they make", async () => {
    const trainer = await open();
    const logProbs = await trainer.logProbs(tokens, temperature);
    const pass = await trainer.forwardBackward(BATCH, CLIPPED, temperature);
    let loss = 0;
    BATCH.forEach(({ weights_T, advantages_T, behaviourLogProbs_T }, i) => {
      expect(pass.logProbs[i]).toHaveLength(weights_T.length);
      expect(pass.logProbs[i]?.[0]).toBe(0);
      logProbs[i]?.forEach((logProb, t) => {
        expect(pass.logProbs[i]?.[t]).toBeCloseTo(logProb, 5);
        if (t === 0) return;
        const ratio = Math.exp(logProb - (behaviourLogProbs_T?.[t] ?? 0));
        const A = advantages_T?.[t] ?? 0;
        loss -= (weights_T[t] ?? 0) * Math.min(ratio * A, Math.min(Math.max(ratio, 0.8), 1.3) * A);
      });
    });
    expect(pass.loss).toBeCloseTo(loss, 4);
    await trainer.close();
  });

  test("probabilities of the next token sum to one, at any temperature", async () => {
    const trainer = await open();
    for (const temperature of subject.temperature ? [subject.temperature] : [0.5, 2]) {
      const every = Array.from({ length: 30 }, (_, token) => [7, 11, token]);
      const logProbs = await trainer.logProbs(every, temperature);
      const sum = logProbs.reduce((total, row) => total + Math.exp(row[2] ?? 0), 0);
      expect(sum).toBeGreaterThan(0.2);
      expect(sum).toBeLessThanOrEqual(1.0001);
    }
    await trainer.close();
  });

  test("gradients of several calls add up", async () => {
    const [whole, parts] = [await open(), await open()];
    await whole.forwardBackward(BATCH, CLIPPED, 1);
    for (const sequence of BATCH) await parts.forwardBackward([sequence], CLIPPED, 1);
    const { gradientNorm } = await whole.optimizerStep(ADAM);
    expect((await parts.optimizerStep(ADAM)).gradientNorm).toBeCloseTo(gradientNorm, 4);
    const [a, b] = [await whole.logProbs(tokens, 1), await parts.logProbs(tokens, 1)];
    a.forEach((row, i) => {
      row.forEach((value, t) => {
        expect(b[i]?.[t]).toBeCloseTo(value, 3);
      });
    });
    await Promise.all([whole.close(), parts.close()]);
  });

  test("a scale of the gradient is one of all weights: by powers of two, byte for byte", async () => {
    const states = [];
    for (const scale of [1, 8]) {
      const trainer = await open();
      const scaled = BATCH.map((sequence) => ({ ...sequence, weights_T: sequence.weights_T.map((w) => w / scale) }));
      await trainer.forwardBackward(scaled, CLIPPED, temperature);
      const { gradientNorm } = await trainer.optimizerStep({ ...ADAM, maxGradientNorm: null }, scale);
      states.push({ gradientNorm, state: stateOf(await trainer.save()) });
      await trainer.close();
    }
    expect(states[1]).toEqual(states[0]);
  });

  test("what comes after the last token that weighs has no part in the gradient", async () => {
    const only = (tokens: number[], at: number[]): TrainingSequence => ({
      tokens,
      weights_T: Float32Array.from(tokens, (_, t) => (at.includes(t) ? 0.5 : 0)),
    });
    const norms = [];
    for (const tokens of [
      [3, 1, 4, 1, 5, 9, 2, 6],
      [3, 1, 4],
    ]) {
      const trainer = await open();
      await trainer.forwardBackward([only(tokens, [2]), only([7, 7], [])], { kind: "linear" }, 1);
      norms.push((await trainer.optimizerStep(ADAM)).gradientNorm);
      await trainer.close();
    }
    expect(norms[0]).toBeGreaterThan(0);
    expect(norms[1]).toBeCloseTo(norms[0] ?? 0, 5);
  });

  test("the same batches give the same bytes", async () => {
    const states = [];
    for (let run = 0; run < 2; run++) {
      const trainer = await open();
      await trainer.forwardBackward(BATCH, CLIPPED, 1);
      await trainer.optimizerStep(ADAM);
      states.push(stateOf(await trainer.save()));
      await trainer.close();
    }
    expect(states[1]).toEqual(states[0]);
  });

  test("training resumed from saved files equals training that went on, byte for byte", async () => {
    const [straight, first, second] = [await open(), await open(), await open()];
    const step = async (trainer: typeof straight) => {
      await trainer.forwardBackward(BATCH, { kind: "linear" }, 1);
      await trainer.optimizerStep(ADAM);
    };
    await step(straight);
    await step(straight);
    await step(first);
    const saved = await first.save();
    expect([...stateOf(saved).keys()]).toEqual(expect.arrayContaining([trained, "optimizer.safetensors"]));
    // What a trainer did before it loads leaves no trace.
    await second.forwardBackward(BATCH, CLIPPED, 1);
    await second.load(new Map([...subject.files, ...saved]));
    expect(stateOf(await second.save())).toEqual(stateOf(saved));
    await step(second);
    expect(stateOf(await second.save())).toEqual(stateOf(await straight.save()));
    await Promise.all([straight, first, second].map((trainer) => trainer.close()));
  });

  test("an update without a gradient moves nothing when nothing decays", async () => {
    const trainer = await open();
    const before = stateOf(await trainer.save());
    expect(await trainer.optimizerStep({ ...ADAM, weightDecay: 0 })).toEqual({ gradientNorm: 0 });
    expect(stateOf(await trainer.save()).get(trained)).toEqual(before.get(trained));
    await trainer.close();
  });

  test("linear weights of -1 teach a tiny sequence by heart", async () => {
    const trainer = await open();
    const lesson = [1, 12, 5, 5, 23, 8, 2];
    const sequence = { tokens: lesson, weights_T: Float32Array.from(lesson, () => -1 / 6) };
    for (let step = 0; step < 40; step++) {
      await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
      await trainer.optimizerStep({ ...ADAM, learningRate: 0.02, weightDecay: 0 });
    }
    const [logProbs_T] = await trainer.logProbs([lesson], 1);
    for (const logProb of logProbs_T?.slice(1) ?? []) expect(logProb).toBeGreaterThan(byHeart);
    await trainer.close();
  });

  test("what cannot be computed is refused in one line", async () => {
    const trainer = await open();
    const sequence = { tokens: [1, 2, 3], weights_T: new Float32Array(3) };
    await expect(trainer.logProbs([[1, 10_000]], 1)).rejects.toThrow(/token 10000 is outside the model's vocabulary/);
    await expect(trainer.logProbs([Array(500).fill(1)], 1)).rejects.toThrow(/500 tokens exceeds the context of/);
    await expect(trainer.forwardBackward([sequence], CLIPPED, 1)).rejects.toMatchObject({ code: "config-invalid" });
    await trainer.close();
    await expect(open({}, new Map())).rejects.toMatchObject({ code: "checkpoint-damaged" });
  });
}
