/** @file A trainer's state is loaded whole or not at all; after a load or a step, gradientNorm measures the gradient from zero. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { OPTIMIZER_FILE } from "../../engine/checkpoint/shards.ts";
import { openTrainedState, type TrainedState } from "../../engine/model/trained-state.ts";
import { LORA, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "./tiny.ts";

/** Weights, optimizer state and gradient. */
function stateOf({ savedFile, gradient }: TrainedState) {
  const files = [0, 1, 2].map((index) => savedFile(index));
  return structuredClone([files, gradient]);
}

test.each([
  ["all weights", tinyCheckpoint(), tinyCheckpoint(TINY, 2)],
  ["an adapter", tinyAdapter(), tinyAdapter(TINY, LORA, 2)],
])("files with a damaged optimizer leave the state of %s as it is", async (_name, files, others) => {
  const state = openTrainedState(files);
  state.gradient.fill(0.5);
  await state.optimizerStep(OptimizerConfig.parse({}));
  state.gradient.fill(0.25);
  const before = stateOf(state);
  const damaged = new Map([...others, [OPTIMIZER_FILE, new Uint8Array([1, 2, 3])]]);
  await expect(state.load(damaged)).rejects.toMatchObject({ code: "checkpoint-damaged" });
  expect(stateOf(state)).toEqual(before);
});

test("a gradient that is not finite is refused and dropped: weights and moments stay, and the next batch is trained on", async () => {
  const [state, undisturbed] = [openTrainedState(tinyCheckpoint()), openTrainedState(tinyCheckpoint())];
  state.gradient.fill(Number.NaN);
  await expect(state.optimizerStep(OptimizerConfig.parse({}))).rejects.toMatchObject({ code: "run-halted" });
  expect(stateOf(state)).toEqual(stateOf(undisturbed));
  for (const one of [state, undisturbed]) {
    one.gradient.fill(0.5);
    await one.optimizerStep(OptimizerConfig.parse({}));
  }
  expect(stateOf(state)).toEqual(stateOf(undisturbed));
});

test("after a load or a step, gradientNorm measures the gradient from zero", async () => {
  const state = openTrainedState(tinyCheckpoint());
  const norms: number[] = [];
  const measure = async () => {
    state.gradient.fill(0.5);
    norms.push(await state.gradientNorm());
  };
  await measure();
  await state.load(tinyCheckpoint());
  await measure();
  await state.optimizerStep(OptimizerConfig.parse({}));
  await measure();
  const expected = 0.5 * Math.sqrt(state.gradient.length);
  expect(norms).toEqual(norms.map(() => expect.closeTo(expected, 4)));
});

test.each([
  [
    "an adapter with another alpha",
    tinyAdapter(),
    tinyAdapter(TINY, { ...LORA, alpha: 6 }),
    /: an adapter of rank 3 and alpha 6 on .*, but this trainer trains an adapter of rank 3 and alpha 5 on /,
  ],
  ["another model", tinyCheckpoint(), tinyCheckpoint(UNTIED), /^config\.json: it describes a different model/],
])("files of %s are refused, and leave the state as it is", async (_name, files, others, message) => {
  const state = openTrainedState(files);
  const before = stateOf(state);
  await expect(state.load(others)).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: expect.stringMatching(message),
  });
  expect(stateOf(state)).toEqual(before);
});
