/** @file The contract of Trainer, run against every engine. */
import { expect, test } from "vitest";
import type { CheckpointFiles, EngineOptions, PolicyEngine, TrainingSequence } from "../../core/ports.ts";

export interface EngineSubject {
  readonly engine: PolicyEngine;
  /** A small model with a vocabulary of at least 30. */
  readonly files: CheckpointFiles;
  readonly options: EngineOptions;
  /** The only temperature at which the engine computes. Absent: any. */
  readonly temperature?: number;
  /** Whether the engine sees gradients, and so its trainers have `gradientNorm()`. Default: true. */
  readonly seesGradients?: boolean;
  /** The state that a version's files refer to, where they do not contain it. */
  stateOf?(saved: CheckpointFiles): CheckpointFiles;
  /** Name of the file with the trained weights. Default: model.safetensors. */
  readonly trained?: string;
  /** Whether a sequence's rounding may depend on the other sequences of its batch. */
  readonly roundingDependsOnBatch?: boolean;
  /** How far the sampler's log-probs may be from the trainer's. Default: 1e-4. */
  readonly tolerance?: number;
  /** How well the model can memorize seven tokens: the log-prob of each but the first is above this. Default: -0.2. */
  readonly memorizedLogProb?: number;
}

const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1, maxGradientNorm: 1 };

/** Lengths differ, to exercise padding and micro-batches. */
const BATCH: TrainingSequence[] = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3], [8, 9, 7, 9, 3], [2]].map((tokens, i) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => (t + i) / 10),
  advantages_T: Float32Array.from(tokens, (_, t) => (t % 2 ? 1 : -0.5)),
  behaviorLogProbs_T: Float32Array.from(tokens, (_, t) => -3 - t / 10),
}));
const CLIPPED = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.3 } as const;

const TOKENS = BATCH.map(({ tokens }) => tokens);
const open = (subject: EngineSubject, files = subject.files) => subject.engine.openTrainer(files, subject.options);
const temperatureOf = ({ temperature = 0.7 }: EngineSubject) => temperature;
const trainedFile = ({ trained = "model.safetensors" }: EngineSubject) => trained;
const stateOf = (subject: EngineSubject, saved: CheckpointFiles) => subject.stateOf?.(saved) ?? saved;

export function trainerContract(subject: EngineSubject) {
  testLoss(subject);
  testProbabilities(subject);
  testAccumulation(subject);
  testEqualSequences(subject);
  testPartNorms(subject);
  testScale(subject);
  testTail(subject);
  testDeterminism(subject);
  testResume(subject);
  testEmptyGradient(subject);
  testMemorization(subject);
  testRefusals(subject);
  testRefusedBatch(subject);
  testClosed(subject);
}

function testLoss(subject: EngineSubject) {
  test("forwardBackward reports the same log-probs as logProbs, and their loss", async () => {
    const trainer = await open(subject);
    const logProbs = await trainer.logProbs(TOKENS, temperatureOf(subject));
    const pass = await trainer.forwardBackward(BATCH, CLIPPED, temperatureOf(subject));
    let loss = 0;
    BATCH.forEach(({ weights_T, advantages_T, behaviorLogProbs_T }, i) => {
      expect(pass.logProbs[i]).toHaveLength(weights_T.length);
      expect(pass.logProbs[i]?.[0]).toBe(0);
      logProbs[i]?.forEach((logProb, t) => {
        expect(pass.logProbs[i]?.[t]).toBeCloseTo(logProb, 5);
        if (t === 0) return;
        const ratio = Math.exp(logProb - (behaviorLogProbs_T?.[t] ?? 0));
        const A = advantages_T?.[t] ?? 0;
        loss -= (weights_T[t] ?? 0) * Math.min(ratio * A, Math.min(Math.max(ratio, 0.8), 1.3) * A);
      });
    });
    expect(pass.loss).toBeCloseTo(loss, 4);
    await trainer.close();
  });
}

function testProbabilities(subject: EngineSubject) {
  test("probabilities of 30 next tokens sum to at most one, at any temperature", async () => {
    const trainer = await open(subject);
    for (const temperature of subject.temperature ? [subject.temperature] : [0.5, 2]) {
      const every = Array.from({ length: 30 }, (_, token) => [7, 11, token]);
      const logProbs = await trainer.logProbs(every, temperature);
      const sum = logProbs.reduce((total, row) => total + Math.exp(row[2] ?? 0), 0);
      expect(sum).toBeGreaterThan(0.2);
      expect(sum).toBeLessThanOrEqual(1.0001);
    }
    await trainer.close();
  });
}

function testAccumulation(subject: EngineSubject) {
  test("gradients of several calls add up", async () => {
    const [whole, parts] = [await open(subject), await open(subject)];
    await whole.forwardBackward(BATCH, CLIPPED, 1);
    for (const sequence of BATCH) await parts.forwardBackward([sequence], CLIPPED, 1);
    const { gradientNorm } = await whole.optimizerStep(ADAM);
    expect((await parts.optimizerStep(ADAM)).gradientNorm).toBeCloseTo(gradientNorm, 4);
    const [a, b] = [await whole.logProbs(TOKENS, 1), await parts.logProbs(TOKENS, 1)];
    a.forEach((row, i) => {
      row.forEach((value, t) => {
        expect(b[i]?.[t]).toBeCloseTo(value, 3);
      });
    });
    await Promise.all([whole.close(), parts.close()]);
  });
}

function testEqualSequences(subject: EngineSubject) {
  test("equal sequences add up, like one with the sum of their weights", async () => {
    const [sequence] = BATCH as [TrainingSequence];
    const summed = { ...sequence, weights_T: sequence.weights_T.map((weight) => 3 * weight) };
    const norms = [];
    for (const batch of [[sequence, sequence, sequence], [summed]]) {
      const trainer = await open(subject);
      await trainer.forwardBackward(batch, CLIPPED, 1);
      norms.push((await trainer.optimizerStep(ADAM)).gradientNorm);
      await trainer.close();
    }
    expect(norms[0]).toBeGreaterThan(0);
    expect(norms[0]).toBeCloseTo(norms[1] ?? 0, 4);
  });
}

function testPartNorms(subject: EngineSubject) {
  test("gradientNorm is the norm of the gradient added since the previous call, and does not change the norm that optimizerStep reports", async () => {
    const asked = await open(subject);
    expect(asked.gradientNorm !== undefined).toBe(subject.seesGradients ?? true);
    if (!asked.gradientNorm) return asked.close();
    const [unasked, alone] = [await open(subject), await open(subject)];
    const [first, second] = [BATCH.slice(0, 1), BATCH.slice(1)];
    const norms = [];
    for (const part of [first, second]) {
      await asked.forwardBackward(part, CLIPPED, 1);
      await unasked.forwardBackward(part, CLIPPED, 1);
      norms.push(await asked.gradientNorm());
    }
    expect(await asked.gradientNorm()).toBe(0);
    await alone.forwardBackward(second, CLIPPED, 1);
    expect(norms[1]).toBeCloseTo((await alone.gradientNorm?.()) ?? 0, 4);
    expect(norms[0]).toBeGreaterThan(0);
    const steps = [await asked.optimizerStep(ADAM), await unasked.optimizerStep(ADAM)];
    expect(steps[0]?.gradientNorm).toBeCloseTo(steps[1]?.gradientNorm ?? 0, 4);
    // After the step, the gradient is zero again.
    await asked.forwardBackward(second, { kind: "linear" }, 1);
    const norm = await asked.gradientNorm();
    expect((await asked.optimizerStep({ ...ADAM, maxGradientNorm: null })).gradientNorm).toBeCloseTo(norm, 4);
    await Promise.all([asked, unasked, alone].map((trainer) => trainer.close()));
  });
}

function testScale(subject: EngineSubject) {
  test("scaling the gradient by a power of two undoes dividing all loss weights by it, byte for byte", async () => {
    const states = [];
    for (const scale of [1, 8]) {
      const trainer = await open(subject);
      const scaled = BATCH.map((sequence) => ({ ...sequence, weights_T: sequence.weights_T.map((w) => w / scale) }));
      await trainer.forwardBackward(scaled, CLIPPED, temperatureOf(subject));
      const { gradientNorm } = await trainer.optimizerStep({ ...ADAM, maxGradientNorm: null }, scale);
      states.push({ gradientNorm, state: stateOf(subject, await trainer.save()) });
      await trainer.close();
    }
    expect(states[1]).toEqual(states[0]);
  });
}

function testTail(subject: EngineSubject) {
  test("tokens after the last one with a weight do not affect the gradient's norm", async () => {
    const only = (tokens: number[], at: number[]): TrainingSequence => ({
      tokens,
      weights_T: Float32Array.from(tokens, (_, t) => (at.includes(t) ? 0.5 : 0)),
    });
    const norms = [];
    for (const tokens of [
      [3, 1, 4, 1, 5, 9, 2, 6],
      [3, 1, 4],
    ]) {
      const trainer = await open(subject);
      await trainer.forwardBackward([only(tokens, [2]), only([7, 7], [])], { kind: "linear" }, 1);
      norms.push((await trainer.optimizerStep(ADAM)).gradientNorm);
      await trainer.close();
    }
    expect(norms[0]).toBeGreaterThan(0);
    expect(norms[1]).toBeCloseTo(norms[0] ?? 0, 5);
  });
}

function testDeterminism(subject: EngineSubject) {
  test("the same batches give the same saved files, byte for byte", async () => {
    const states = [];
    for (let run = 0; run < 2; run++) {
      const trainer = await open(subject);
      await trainer.forwardBackward(BATCH, CLIPPED, 1);
      await trainer.optimizerStep(ADAM);
      states.push(stateOf(subject, await trainer.save()));
      await trainer.close();
    }
    expect(states[1]).toEqual(states[0]);
  });
}

function testResume(subject: EngineSubject) {
  test("training resumed from saved files equals uninterrupted training, byte for byte", async () => {
    const [straight, first, second] = [await open(subject), await open(subject), await open(subject)];
    const step = async (trainer: typeof straight) => {
      await trainer.forwardBackward(BATCH, { kind: "linear" }, 1);
      await trainer.optimizerStep(ADAM);
    };
    await step(straight);
    await step(straight);
    await step(first);
    const saved = await first.save();
    expect([...stateOf(subject, saved).keys()]).toEqual(
      expect.arrayContaining([trainedFile(subject), "optimizer.safetensors"]),
    );
    // Work before a load leaves no trace.
    await second.forwardBackward(BATCH, CLIPPED, 1);
    await second.load(new Map([...subject.files, ...saved]));
    expect(stateOf(subject, await second.save())).toEqual(stateOf(subject, saved));
    await step(second);
    expect(stateOf(subject, await second.save())).toEqual(stateOf(subject, await straight.save()));
    await Promise.all([straight, first, second].map((trainer) => trainer.close()));
  });
}

function testEmptyGradient(subject: EngineSubject) {
  test("an update without a gradient or weight decay changes no weight", async () => {
    const trainer = await open(subject);
    const before = stateOf(subject, await trainer.save());
    expect(await trainer.optimizerStep({ ...ADAM, weightDecay: 0 })).toEqual({ gradientNorm: 0 });
    expect(stateOf(subject, await trainer.save()).get(trainedFile(subject))).toEqual(before.get(trainedFile(subject)));
    await trainer.close();
  });
}

function testMemorization(subject: EngineSubject) {
  test("negative linear weights make the model memorize a short sequence", async () => {
    const trainer = await open(subject);
    const lesson = [1, 12, 5, 5, 23, 8, 2];
    const sequence = { tokens: lesson, weights_T: Float32Array.from(lesson, () => -1 / 6) };
    for (let step = 0; step < 40; step++) {
      await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
      await trainer.optimizerStep({ ...ADAM, learningRate: 0.02, weightDecay: 0 });
    }
    const [logProbs_T] = await trainer.logProbs([lesson], 1);
    expect(logProbs_T).toHaveLength(lesson.length);
    for (const logProb of logProbs_T?.slice(1) ?? []) expect(logProb).toBeGreaterThan(subject.memorizedLogProb ?? -0.2);
    await trainer.close();
  });
}

function testRefusals(subject: EngineSubject) {
  test("unknown tokens, empty and too long sequences, missing behavior log-probs, invalid optimizer settings and an empty checkpoint are refused", async () => {
    const trainer = await open(subject);
    const sequence = { tokens: [1, 2, 3], weights_T: new Float32Array(3) };
    await expect(trainer.logProbs([[1, 10_000]], 1)).rejects.toThrow(/token 10000 is outside the model's vocabulary/);
    await expect(trainer.logProbs([Array(500).fill(1)], 1)).rejects.toThrow(/500 tokens exceeds the context of/);
    await expect(trainer.logProbs([[1], []], 1)).rejects.toThrow(/a sequence has no tokens: leave it out/);
    await expect(trainer.forwardBackward([sequence], CLIPPED, 1)).rejects.toMatchObject({ code: "config-invalid" });
    // A refused step keeps the gradient.
    await trainer.forwardBackward(BATCH, CLIPPED, 1);
    await expect(trainer.optimizerStep(ADAM, Number.NaN)).rejects.toThrow(/optimizerStep: scale: /);
    await expect(trainer.optimizerStep({ ...ADAM, beta2: 1 })).rejects.toThrow(/optimizerStep: beta2: /);
    expect((await trainer.optimizerStep(ADAM)).gradientNorm).toBeGreaterThan(0);
    await trainer.close();
    await expect(open(subject, new Map())).rejects.toMatchObject({ code: "checkpoint-damaged" });
  });
}

function testRefusedBatch(subject: EngineSubject) {
  test("a batch of which one sequence is refused adds nothing to the gradient", async () => {
    const trainer = await open(subject);
    // These two sequences differ in length and first token, so that with two lanes each lane gets one.
    const [fine, , other] = BATCH as [TrainingSequence, TrainingSequence, TrainingSequence];
    const { tokens, weights_T } = other;
    for (const refused of [
      { ...other, tokens: [...tokens.slice(1), 10_000] },
      { tokens, weights_T },
    ])
      await expect(trainer.forwardBackward([fine, refused], CLIPPED, 1)).rejects.toThrow();
    expect(await trainer.optimizerStep({ ...ADAM, weightDecay: 0 })).toEqual({ gradientNorm: 0 });
    await trainer.close();
  });
}

function testClosed(subject: EngineSubject) {
  test("a closed trainer refuses to work", async () => {
    const trainer = await open(subject);
    await trainer.close();
    const refusal = { code: "canceled", message: "the trainer is closed: open another" };
    const results = [trainer.logProbs(TOKENS, 1), trainer.forwardBackward([], CLIPPED, 1), trainer.optimizerStep(ADAM)];
    const others = [trainer.save(), trainer.load(subject.files)];
    await Promise.all([...results, ...others].map((result) => expect(result).rejects.toMatchObject(refusal)));
    await trainer.close();
  });
}
