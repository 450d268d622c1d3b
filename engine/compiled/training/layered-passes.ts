/**
 * @file Passes over a frozen model with an adapter on it, or over a large model all of whose weights are trained. Of the model's own
 * arrays there are, at any time, what entered each layer, those of one layer, and the head's of a few rows.
 */
import { EMBEDDING, FINAL_NORM, headName, views } from "../../checkpoint/parameters.ts";
import type { TrainedState } from "../../checkpoint/trained-state.ts";
import { checkTrainingSequence } from "../../model/input-checks.ts";
import { rotaryTable } from "../../model/positions.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { gradientTensors } from "../graphs/gradient.ts";
import {
  FIRST_GRADIENT,
  LAST_GRADIENT,
  stateName,
  traceBackward,
  traceHead,
  traceHeadLoss,
  traceStates,
} from "../graphs/layered.ts";
import { trainLengths } from "../graphs/train.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import type { OpenWeights } from "../open-weights.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { sharedSession } from "../shared-sessions.ts";
import type { TracedGraph } from "../trace/trace.ts";
import { scatterAdd } from "./arrays.ts";
import type { Passes } from "./lane-trainer.ts";
import { type MicroBatch, paddedLength, planMicroBatches } from "./micro-batches.ts";
import { clipFeeds, forwardFeeds, lossFeeds, type Predictions, predictions, scatterLogProbs } from "./train-inputs.ts";

/** Largest array of the head: rows x vocabulary. */
const HEAD_BYTES = 64 * 2 ** 20;
/** Of that size at a time: logits, log-probs, probabilities. */
export const HEAD_ARRAYS = 3;
const FEWEST_ROWS = 2;

/** Rows that the head takes at a time, out of so many. */
export const headRows = (vocabulary: number, rows: number): number =>
  Math.min(rows, Math.max(FEWEST_ROWS, Math.floor(HEAD_BYTES / (4 * vocabulary))));

type Sequences = readonly (readonly number[])[];

/** `frozen`: the base under the adapter, if it is one that is trained. */
export function layeredPasses(
  { config, layout, lora, weights, gradient }: TrainedState,
  frozen: Pick<OpenWeights, "external" | "feeds">,
  options: LaneOptions,
): Passes {
  const { width, layers, vocabulary } = config;
  const shape = { config, lora };
  const rotary = rotaryTable(config, paddedLength(options.contextTokens));
  const weightFeeds = { ...frozen.feeds, ...parameterTensors(layout, weights) };
  const gradientOf = (name: string) => views(layout, gradient).get(name) ?? new Float32Array();
  const gradientsOf = (which: (name: string) => boolean) =>
    gradientTensors(
      layout,
      gradient,
      layout.parameters.filter(({ name }) => which(name)),
    );
  const ofHead = gradientsOf((name) => name === FINAL_NORM || name === headName(config));
  const ofLayers = gradientsOf((name) => name.includes(".layers."));
  const open = (graph: string, trace: (shape: PolicyShape) => TracedGraph) =>
    sharedSession(graph, shape, options, trace, frozen.external);
  let states = new Float32Array();

  /** Room for what enters each layer and leaves the last one: [L + 1, rows, D], used anew by every micro-batch. */
  const stateTensors = (rows: number): Feeds => {
    const size = rows * width;
    if (states.length < (layers + 1) * size) states = new Float32Array((layers + 1) * size);
    return Object.fromEntries(
      Array.from({ length: layers + 1 }, (_, layer) => [
        stateName(layer),
        tensor(states.subarray(layer * size, (layer + 1) * size), [rows, width]),
      ]),
    );
  };

  const forward = async (micro: MicroBatch, sequences: Sequences) => {
    const { feeds: positions, sources } = forwardFeeds(micro, sequences, rotary);
    const rows = sources.length;
    const entering = stateTensors(rows);
    const session = await open("layered-states", traceStates);
    const tokens = tensor(sources, [micro.members.length, micro.tokens]);
    await session.run(lengthsOf(micro), { ...weightFeeds, ...positions, tokens }, entering);
    const last = states.subarray(layers * rows * width, (layers + 1) * rows * width);
    return { positions, sources, entering, last };
  };

  const headFeeds = (last: Float32Array, { row, targets }: Predictions, temperature: number): Feeds => ({
    ...weightFeeds,
    x: tensor(rowsOf(last, row, width), [row.length, width]),
    targets: tensor(targets, [row.length]),
    inverseTemperature: tensor(Float32Array.of(1 / temperature), []),
  });
  const chunksOf = (asked: Predictions) => inChunks(asked, headRows(vocabulary, asked.row.length));

  return {
    async logProbs(sequences, temperature) {
      const session = await open("layered-head", traceHead);
      const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
      for (const micro of planMicroBatches(sequences, vocabulary, options)) {
        const { last } = await forward(micro, sequences);
        for (const asked of chunksOf(predictions(micro, sequences, () => true))) {
          const outputs = await session.run({ rows: asked.row.length }, headFeeds(last, asked, temperature));
          scatterLogProbs(logProbs, asked, outputs["logProbs"]);
        }
      }
      return logProbs;
    },

    async forwardBackward(batch, loss, temperature) {
      for (const sequence of batch) checkTrainingSequence(sequence, loss);
      const sequences = batch.map(({ tokens }) => tokens);
      const head = await open("layered-head-loss", traceHeadLoss);
      const backward = await open("layered-backward", traceBackward);
      const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
      let total = 0;
      for (const micro of planMicroBatches(sequences, vocabulary, options)) {
        const { positions, sources, entering, last } = await forward(micro, sequences);
        const lastGradient = new Float32Array(last.length);
        for (const asked of chunksOf(predictions(micro, sequences, (m, t) => batch[m]?.weights_T[t] !== 0))) {
          const rows = { ...lossFeeds(asked, batch, loss.kind === "linear"), ...clipFeeds(loss) };
          const feeds = { ...headFeeds(last, asked, temperature), ...ofHead.sums, ...rows };
          const outputs = await head.run({ rows: asked.row.length }, feeds, ofHead.outputs);
          scatterAdd(lastGradient, asked.row, outputOf(outputs, LAST_GRADIENT), width);
          if (!lora) scatterAdd(gradientOf(headName(config)), asked.targets, outputOf(outputs, "targetRows"), width);
          scatterLogProbs(logProbs, asked, outputs["logProbs"]);
          total += outputs["loss"]?.[0] ?? 0;
        }
        const dLast = { [LAST_GRADIENT]: tensor(lastGradient, [last.length / width, width]) };
        const feeds = { ...weightFeeds, ...positions, ...entering, ...ofLayers.sums, ...dLast };
        const outputs = await backward.run(lengthsOf(micro), feeds, ofLayers.outputs);
        if (!lora) scatterAdd(gradientOf(EMBEDDING), sources, outputOf(outputs, FIRST_GRADIENT), width);
      }
      return { loss: total, logProbs };
    },
  };
}

const lengthsOf = ({ members, tokens }: MicroBatch) => trainLengths(members.length, tokens, 0);

function outputOf(outputs: Record<string, Float32Array>, name: string): Float32Array {
  const output = outputs[name];
  if (!output) throw new Error(`a graph lacks its output ${name}`);
  return output;
}

/** Rows of x [N, width], one after the other. */
function rowsOf(x: Float32Array, rows: Int32Array, width: number): Float32Array {
  const picked = new Float32Array(rows.length * width);
  rows.forEach((row, r) => {
    picked.set(x.subarray(row * width, (row + 1) * width), r * width);
  });
  return picked;
}

/** As equal as can be, none longer than `longest`. */
function inChunks({ member, position, row, targets }: Predictions, longest: number): Predictions[] {
  const count = Math.ceil(row.length / longest);
  const edge = (i: number) => Math.round((i * row.length) / count);
  return Array.from({ length: count }, (_, i) => {
    const cut = (column: Int32Array) => column.subarray(edge(i), edge(i + 1));
    return { member: cut(member), position: cut(position), row: cut(row), targets: cut(targets) };
  });
}
