/** @file The trainer in plain tfjs: one sequence at a time, gradients by autodiff. Tests check the compiled trainer against it. */
import * as tf from "@tensorflow/tfjs-core";
import "../model/gradients.ts";
import type { CheckpointFiles, EngineOptions, Loss, Trainer, TrainingSequence } from "../../core/ports.ts";
import { views } from "../checkpoint/parameters.ts";
import { openTrainedState } from "../checkpoint/trained-state.ts";
import { readCheckpoint } from "../checkpoint/weights.ts";
import { checkTokens, checkTrainingSequence } from "../model/input-checks.ts";
import { type LossRows, loss as lossOf, targetLogProbs } from "../model/losses.ts";
import { type EagerBackend, onBackend } from "./backend.ts";
import { headOf, hiddenStates, weightTensors } from "./model.ts";

export function openEagerTrainer(files: CheckpointFiles, options: EngineOptions, backend: EagerBackend): Trainer {
  const { config, lora, layout, weights, gradient, ...state } = openTrainedState(files, options.shardBytes);
  const names = layout.parameters.map(({ name }) => name);
  const base = lora && readCheckpoint(files);
  const frozen = () => (base ? weightTensors(base.layout, base.weights) : {});

  /** [T - 1]: row t predicts token t + 1. */
  const rowLogProbs = (given: Record<string, tf.Tensor>, tokens: readonly number[], temperature: number) => {
    const hidden = hiddenStates(config, given, tokens.slice(0, -1), lora);
    const targets = tf.tensor1d(tokens.slice(1), "int32");
    return targetLogProbs(hidden, headOf(config, given), targets, tf.scalar(1 / temperature));
  };
  const check = (tokens: readonly number[]) => checkTokens(tokens, config.vocabulary, options.contextTokens);
  const compute = <T>(work: () => T): T => onBackend(backend, work);

  const backward = (sequence: TrainingSequence, loss: Loss, temperature: number) => {
    const { tokens } = sequence;
    if (tokens.length < 2) return { loss: 0, logProbs_T: new Float32Array(tokens.length) };
    let rows: tf.Tensor1D | undefined;
    const frozenTensors = frozen();
    const { value, grads } = tf.valueAndGrads((...values) => {
      const given = { ...frozenTensors, ...Object.fromEntries(values.map((tensor, i) => [names[i] ?? "", tensor])) };
      rows = tf.keep(rowLogProbs(given, tokens, temperature));
      return lossOf(rows, lossRows(sequence, loss));
    })(Object.values(weightTensors(layout, weights)));
    addTo(views(layout, gradient), names, grads);
    const logProbs_T = Float32Array.of(0, ...(rows?.dataSync() ?? []));
    rows?.dispose();
    return { loss: value.dataSync()[0] ?? 0, logProbs_T };
  };

  return {
    async logProbs(sequences, temperature) {
      sequences.forEach(check);
      return sequences.map((tokens) =>
        tokens.length < 2
          ? new Float32Array(tokens.length)
          : compute(() =>
              Float32Array.of(
                0,
                ...rowLogProbs({ ...frozen(), ...weightTensors(layout, weights) }, tokens, temperature).dataSync(),
              ),
            ),
      );
    },
    async forwardBackward(batch, loss, temperature) {
      for (const sequence of batch) {
        check(sequence.tokens);
        checkTrainingSequence(sequence, loss);
      }
      const passes = batch.map((sequence) => compute(() => backward(sequence, loss, temperature)));
      return {
        loss: passes.reduce((sum, pass) => sum + pass.loss, 0),
        logProbs: passes.map((pass) => pass.logProbs_T),
      };
    },
    ...state,
    async close() {},
  };
}

/** Adds each gradient to the sum of its parameter, in place. */
function addTo(
  sums: ReadonlyMap<string, Float32Array>,
  names: readonly string[],
  gradients: readonly tf.Tensor[],
): void {
  gradients.forEach((gradient, i) => {
    const sum = sums.get(names[i] ?? "");
    gradient.dataSync().forEach((number, at) => {
      if (sum) sum[at] = (sum[at] as number) + number;
    });
  });
}

function lossRows(sequence: TrainingSequence, loss: Loss): LossRows {
  const { weights_T, advantages_T, behaviorLogProbs_T } = sequence;
  const none = new Float32Array(weights_T.length);
  const row = (values: Float32Array | undefined) => tf.tensor1d((values ?? none).slice(1));
  const linear = loss.kind === "linear";
  return {
    linearWeights: row(linear ? weights_T : none),
    clippedWeights: row(linear ? none : weights_T),
    advantages: row(advantages_T),
    behaviorLogProbs: row(linear ? none : behaviorLogProbs_T?.map((value, t) => (weights_T[t] === 0 ? 0 : value))),
    lowest: tf.scalar(linear ? 1 : 1 - loss.clipLow),
    highest: tf.scalar(linear ? 1 : 1 + loss.clipHigh),
  };
}
