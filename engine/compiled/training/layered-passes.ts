/**
 * @file Layer-by-layer passes: for an adapter on a frozen model, or for all weights of a model where one graph for forward, loss and backward needs too
 * much memory or `gradientCheckpointing` is on. Memory holds each layer's input, the activations of one layer, and the head's arrays for one chunk of
 * rows; with `gradientCheckpointing: off`, also the outputs of linear layers that the
 * backward pass reads (kept-products.ts).
 */
import type { ForwardBackward, Loss, TrainingSequence } from "../../../core/ports.ts";
import { EMBEDDING, FINAL_NORM, headName, type Parameter, viewNamed } from "../../checkpoint/parameters.ts";
import { type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { EVERY_PREDICTION, type Predictions, scatterLogProbs, weightedPredictions } from "../../model/predictions.ts";
import type { Sequences } from "../../model/prefix-tree.ts";
import type { TrainedState } from "../../model/trained-state.ts";
import { type Feeds, type GraphSession, requireOutput, tensor } from "../graph-session.ts";
import { type GradientTensors, gradientTensors } from "../graphs/gradient.ts";
import { headChunks } from "../graphs/head-chunks.ts";
import { keptProductName, keptProducts } from "../graphs/kept-products.ts";
import {
  FIRST_GRADIENT,
  LAST_GRADIENT,
  layerInputName,
  traceBackward,
  traceForward,
  traceHead,
  traceHeadLoss,
} from "../graphs/layered.ts";
import { lossKind } from "../graphs/loss-head.ts";
import { type RowKind, trainLengths } from "../graphs/train.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import type { OpenWeights } from "../open-weights.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { sharedSession } from "../shared-sessions.ts";
import type { TracedGraph } from "../trace/trace.ts";
import { gatherRows, scatterAdd } from "./arrays.ts";
import { type MicroBatch, rowCount, rowKind } from "./batch-plan.ts";
import { paddedLength } from "./micro-batches.ts";
import type { Passes } from "./passes.ts";
import { forwardFeeds, lossFeeds, wantedPredictions } from "./train-inputs.ts";

/** An adapter's base model; empty when all weights are trained. */
export type FrozenWeights = Pick<OpenWeights, "external" | "feeds">;

/** What the forward pass of a micro-batch saves for the head and the backward pass. */
interface ForwardState {
  /** cos, sin and mask. */
  readonly attentionInputs: Feeds;
  /** Tokens [B * T]. */
  readonly tokens: Int32Array;
  /** Input of each layer and output of the last one. */
  readonly layerInputs: Feeds;
  /** Outputs of linear layers that the backward pass reads; empty if it recomputes them. */
  readonly products: Feeds;
  /** Output of the last layer, [B * T, D]. */
  readonly last: Float32Array;
}

/** Where gradients accumulate: a flat vector, and its parts as the graphs' inputs and outputs. */
interface GradientSum {
  readonly flat: Float32Array;
  readonly head: GradientTensors;
  readonly layers: GradientTensors;
}

export class LayeredPasses implements Passes {
  /** The head processes predictions in chunks. */
  readonly limitsPredictions = false;
  readonly #state: TrainedState;
  readonly #options: LaneOptions;
  readonly #frozen: FrozenWeights;
  readonly #rotary: RotaryTable;
  readonly #weights: Feeds;
  readonly #headParameters: readonly Parameter[];
  readonly #layerParameters: readonly Parameter[];
  /** [L + 1, B * T, D]: reused by every micro-batch. */
  #layerInputs = new Float32Array();
  /** The kept products of all layers, concatenated: reused by every micro-batch; empty if the backward pass recomputes them. */
  #products = new Float32Array();

  constructor(state: TrainedState, frozen: FrozenWeights, options: LaneOptions) {
    const { config, layout, weights } = state;
    this.#state = state;
    this.#options = options;
    this.#frozen = frozen;
    this.#rotary = rotaryTable(config, paddedLength(options.contextTokens));
    this.#weights = { ...frozen.feeds, ...parameterTensors(layout, weights) };
    this.#headParameters = layout.parameters.filter(({ name }) => name === FINAL_NORM || name === headName(config));
    this.#layerParameters = layout.parameters.filter(({ name }) => name.includes(".layers."));
  }

  async logProbs(sequences: Sequences, temperature: number, plan: readonly MicroBatch[]): Promise<Float32Array[]> {
    const { config } = this.#state;
    const head = await this.#session("layered-head", traceHead);
    const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
    for (const micro of plan) {
      const { last } = await this.#forward(micro, sequences, false);
      for (const chunk of headChunks(wantedPredictions(micro, sequences, EVERY_PREDICTION), config.vocabulary)) {
        const outputs = await head.run({ rows: chunk.row.length }, this.#headFeeds(last, chunk, temperature));
        scatterLogProbs(logProbs, chunk, requireOutput(outputs, "logProbs"));
      }
    }
    return logProbs;
  }

  async forwardBackward(
    batch: readonly TrainingSequence[],
    loss: Loss,
    temperature: number,
    plan: readonly MicroBatch[],
    gradient: Float32Array,
  ): Promise<ForwardBackward> {
    const sequences = batch.map(({ tokens }) => tokens);
    const kind = lossKind(loss);
    const head = await this.#session(`layered-head-loss-${kind}`, traceHeadLoss(kind));
    const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
    const wanted = weightedPredictions(batch, loss);
    const { config } = this.#state;
    const sum = this.#gradientSum(gradient);
    let total = 0;
    for (const micro of plan) {
      const state = await this.#forward(micro, sequences, this.#keeps);
      const lastGradient = new Float32Array(state.last.length);
      for (const chunk of headChunks(wantedPredictions(micro, sequences, wanted), config.vocabulary)) {
        const feeds = { ...this.#headFeeds(state.last, chunk, temperature), ...lossFeeds(chunk, batch, loss) };
        const outputs = await this.#headBackward(head, feeds, chunk, lastGradient, sum);
        scatterLogProbs(logProbs, chunk, requireOutput(outputs, "logProbs"));
        total += requireOutput(outputs, "loss")[0] ?? Number.NaN;
      }
      await this.#backward(micro, state, lastGradient, sum);
    }
    return { loss: total, logProbs };
  }

  #session(graph: string, trace: (shape: PolicyShape) => TracedGraph): Promise<GraphSession> {
    const { config, lora } = this.#state;
    return sharedSession(graph, { config, lora }, this.#options, trace, this.#frozen.external);
  }

  /** Whether the backward pass reads the outputs of the linear layers instead of recomputing them. */
  get #keeps(): boolean {
    return this.#options.gradientCheckpointing === "off";
  }

  async #forward(micro: MicroBatch, sequences: Sequences, keeps: boolean): Promise<ForwardState> {
    const { layers, width } = this.#state.config;
    const { feeds: attentionInputs, inputTokens } = forwardFeeds(micro, sequences, this.#rotary);
    const rows = inputTokens.length;
    const layerInputs = this.#layerInputTensors(rows);
    const products = keeps ? this.#productTensors(rows) : {};
    const kind = rowKind(micro);
    const session = await this.#session(graphName("layered-states", kind, keeps), traceForward(kind, keeps));
    const tokens = tensor(inputTokens, [rowCount(micro), micro.tokens]);
    await session.run(
      lengthsOf(micro),
      { ...this.#weights, ...attentionInputs, tokens },
      { ...layerInputs, ...products },
    );
    const last = this.#layerInputs.subarray(layers * rows * width, (layers + 1) * rows * width);
    return { attentionInputs, tokens: inputTokens, layerInputs, products, last };
  }

  #layerInputTensors(rows: number): Feeds {
    const { layers, width } = this.#state.config;
    const size = rows * width;
    if (this.#layerInputs.length < (layers + 1) * size) this.#layerInputs = new Float32Array((layers + 1) * size);
    const feeds: Feeds = {};
    for (let layer = 0; layer <= layers; layer++) {
      const part = this.#layerInputs.subarray(layer * size, (layer + 1) * size);
      feeds[layerInputName(layer)] = tensor(part, [rows, width]);
    }
    return feeds;
  }

  #productTensors(rows: number): Feeds {
    const { config } = this.#state;
    const products = Array.from({ length: config.layers }, (_, layer) => keptProducts(config, layer)).flat();
    const size = rows * products.reduce((sum, { width }) => sum + width, 0);
    if (this.#products.length < size) this.#products = new Float32Array(size);
    const feeds: Feeds = {};
    let begin = 0;
    for (const { name, width } of products) {
      feeds[keptProductName(name)] = tensor(this.#products.subarray(begin, begin + rows * width), [rows, width]);
      begin += rows * width;
    }
    return feeds;
  }

  #headFeeds(last: Float32Array, { row, targets }: Predictions, temperature: number): Feeds {
    const { width } = this.#state.config;
    return {
      ...this.#weights,
      x: tensor(gatherRows(last, row, width), [row.length, width]),
      targets: tensor(targets, [row.length]),
      inverseTemperature: tensor(Float32Array.of(1 / temperature), []),
    };
  }

  /** Adds to the head's gradient and to `lastGradient` [B * T, D], the gradient of the last layer's output. */
  async #headBackward(
    head: GraphSession,
    feeds: Feeds,
    { row, targets }: Predictions,
    lastGradient: Float32Array,
    gradient: GradientSum,
  ) {
    const { config, lora } = this.#state;
    const { sums, outputs: into } = gradient.head;
    const outputs = await head.run({ rows: row.length }, { ...feeds, ...sums }, into);
    scatterAdd(lastGradient, row, requireOutput(outputs, LAST_GRADIENT), config.width);
    if (!lora) {
      const targetRows = requireOutput(outputs, "targetRows");
      scatterAdd(this.#partOf(gradient, headName(config)), targets, targetRows, config.width);
    }
    return outputs;
  }

  async #backward(
    micro: MicroBatch,
    { attentionInputs, tokens, layerInputs, products }: ForwardState,
    lastGradient: Float32Array,
    gradient: GradientSum,
  ): Promise<void> {
    const { config, lora } = this.#state;
    const { sums, outputs: into } = gradient.layers;
    const kind = rowKind(micro);
    const keeps = this.#keeps;
    const session = await this.#session(graphName("layered-backward", kind, keeps), traceBackward(kind, keeps));
    const feeds: Feeds = {
      ...this.#weights,
      ...attentionInputs,
      ...layerInputs,
      ...products,
      ...sums,
      [LAST_GRADIENT]: tensor(lastGradient, [tokens.length, config.width]),
    };
    const outputs = await session.run(lengthsOf(micro), feeds, into);
    if (lora) return;
    scatterAdd(this.#partOf(gradient, EMBEDDING), tokens, requireOutput(outputs, FIRST_GRADIENT), config.width);
  }

  #gradientSum(flat: Float32Array): GradientSum {
    const tensors = (parameters: readonly Parameter[]) => gradientTensors(this.#state.layout, flat, parameters);
    return { flat, head: tensors(this.#headParameters), layers: tensors(this.#layerParameters) };
  }

  #partOf({ flat }: GradientSum, name: string): Float32Array {
    return viewNamed(name, this.#state.layout, flat);
  }
}

const graphName = (graph: string, kind: RowKind, keeps: boolean) => `${graph}-${kind}${keeps ? "-kept" : ""}`;

const lengthsOf = (micro: MicroBatch) => trainLengths(rowCount(micro), micro.tokens, 0);
