/** @file The trainer in plain tfjs, a row at a time: a prefix tree of sequences that share a prefix, or one sequence. Simple rather than fast. */
import * as tf from "@tensorflow/tfjs-core";
import "../model/gradients.ts";
import type { CheckpointFiles, EngineOptions, Loss, TrainingSequence } from "../../core/ports.ts";
import { views } from "../checkpoint/parameters.ts";
import { saveMethods } from "../checkpoint/saving.ts";
import { parseCheckpoint } from "../checkpoint/weights.ts";
import type { LocalTrainer } from "../model/closable.ts";
import { checkSequences, checkTemperature, checkTrainingSequence } from "../model/input-checks.ts";
import { entropies, entropyLoss, type LossRows, loss as lossOf, targetLogProbs } from "../model/losses.ts";
import {
  clipBounds,
  EVERY_PREDICTION,
  entropyVectors,
  type LossVectors,
  lossVectors,
  type Predictions,
  predictions,
  scatterLogProbs,
  type WantedPredictions,
  weightedPredictions,
} from "../model/predictions.ts";
import { type PrefixTree, prefixTree, type Sequences } from "../model/prefix-tree.ts";
import { openTrainedState } from "../model/trained-state.ts";
import { planTrees } from "../model/tree-plan.ts";
import { type EagerBackend, onBackend } from "./backend.ts";
import { distributions, treeStates, weightTensors } from "./model.ts";

export function openEagerTrainer(files: CheckpointFiles, options: EngineOptions, backend: EagerBackend): LocalTrainer {
  const { config, lora, layout, weights, gradient, savedFile, ...state } = openTrainedState(files, options.shardBytes);
  const names = layout.parameters.map(({ name }) => name);
  const base = lora && parseCheckpoint(files);
  const frozen = () => (base ? weightTensors(base.layout, base.weights) : {});
  const compute = <T>(work: () => T): T => onBackend(backend, work);

  const distributionsOf = (tensors: Record<string, tf.Tensor>, { tree, wanted }: EagerRow, temperature: number) =>
    distributions(config, tensors, treeStates(config, tensors, tree, lora), wanted, temperature);

  /** Adds to the gradient. */
  const backward = (row: EagerRow, batch: readonly TrainingSequence[], loss: Loss, temperature: number) => {
    let logProbs: tf.Tensor1D | undefined;
    const frozenTensors = frozen();
    const { value, grads } = tf.valueAndGrads((...values) => {
      const tensors = { ...frozenTensors, ...Object.fromEntries(values.map((tensor, i) => [names[i] ?? "", tensor])) };
      const all = distributionsOf(tensors, row, temperature);
      logProbs = tf.keep(logProbsIn(all, row));
      return rowLoss(all, logProbs, row, batch, loss);
    })(Object.values(weightTensors(layout, weights)));
    addGradients(views(layout, gradient), names, grads);
    const found = (logProbs?.dataSync() ?? new Float32Array()) as Float32Array;
    logProbs?.dispose();
    return { loss: value.dataSync()[0] ?? 0, logProbs: found };
  };

  return {
    async logProbs(sequences, temperature) {
      checkTemperature(temperature);
      checkSequences(sequences, config.vocabulary, options.contextTokens);
      const found = sequences.map((tokens) => new Float32Array(tokens.length));
      for (const row of rowsOf(sequences, EVERY_PREDICTION, options)) {
        const tensors = () => ({ ...frozen(), ...weightTensors(layout, weights) });
        const logProbs = compute(() => logProbsIn(distributionsOf(tensors(), row, temperature), row).dataSync());
        scatterLogProbs(found, row.wanted, logProbs as Float32Array);
      }
      return found;
    },
    async forwardBackward(batch, loss, temperature) {
      const sequences = batch.map(({ tokens }) => tokens);
      checkTemperature(temperature);
      checkSequences(sequences, config.vocabulary, options.contextTokens);
      for (const sequence of batch) checkTrainingSequence(sequence, loss);
      const found = sequences.map((tokens) => new Float32Array(tokens.length));
      let total = 0;
      for (const row of rowsOf(sequences, weightedPredictions(batch, loss), options)) {
        const pass = compute(() => backward(row, batch, loss, temperature));
        scatterLogProbs(found, row.wanted, pass.logProbs);
        total += pass.loss;
      }
      return { loss: total, logProbs: found };
    },
    ...state,
    ...saveMethods(async (index) => savedFile(index)),
    async close() {},
  };
}

/** One row, and the predictions that are computed from it. */
export interface EagerRow {
  readonly tree: PrefixTree;
  readonly wanted: Predictions;
}

const logProbsIn = (all: tf.Tensor2D, { wanted }: EagerRow): tf.Tensor1D =>
  targetLogProbs(all, tf.tensor1d(wanted.targets, "int32"));

function rowLoss(
  all: tf.Tensor2D,
  logProbs: tf.Tensor1D,
  { wanted }: EagerRow,
  batch: readonly TrainingSequence[],
  loss: Loss,
): tf.Scalar {
  if (loss.kind !== "linear-entropy") return lossOf(logProbs, lossRows(lossVectors(wanted, batch, loss), loss));
  const { linearWeights, entropyWeights } = entropyVectors(wanted, batch);
  const rows = { linearWeights: tf.tensor1d(linearWeights), entropyWeights: tf.tensor1d(entropyWeights) };
  return entropyLoss(logProbs, entropies(all), rows);
}

/** Sequences that share a prefix share a row, up to `microBatchTokens`, unless `prefixTrees` is false. */
export function rowsOf(
  sequences: Sequences,
  wanted: WantedPredictions,
  { prefixTrees = true, microBatchTokens }: Pick<EngineOptions, "prefixTrees" | "microBatchTokens">,
): EagerRow[] {
  const limits = { tokens: microBatchTokens, predictions: Number.POSITIVE_INFINITY };
  const singletons = sequences.map((_, member) => [member]);
  const rows = prefixTrees
    ? planTrees(
        sequences,
        () => 0,
        (tokens) => tokens,
        limits,
      )
    : singletons;
  return rows.map((members) => {
    const tree = prefixTree(members.map((member) => sequences[member] ?? []));
    return { tree, wanted: predictions(members, sequences, (i, t) => tree.nodes[i]?.[t] ?? 0, wanted) };
  });
}

/** Adds each gradient to the sum of its parameter, in place. */
function addGradients(
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

export function lossRows(vectors: LossVectors, loss: Loss): LossRows {
  const [lowest, highest] = clipBounds(loss);
  return {
    linearWeights: tf.tensor1d(vectors.linearWeights),
    clippedWeights: tf.tensor1d(vectors.clippedWeights),
    advantages: tf.tensor1d(vectors.advantages),
    behaviorLogProbs: tf.tensor1d(vectors.behaviorLogProbs),
    lowest: tf.scalar(lowest),
    highest: tf.scalar(highest),
  };
}
