/**
 * @file Passes over a model whose weights are all trained, and which is small enough for one graph per pass (memory.ts). The training graph
 * keeps the activations of every layer; gradients accumulate in place.
 */
import type { ForwardBackward, Loss, TrainingSequence } from "../../../core/ports.ts";
import { EMBEDDING, headName, type Parameter, viewNamed } from "../../checkpoint/parameters.ts";
import { type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { EVERY_PREDICTION, type Predictions, scatterLogProbs, weightedPredictions } from "../../model/predictions.ts";
import type { Sequences } from "../../model/prefix-tree.ts";
import type { TrainedState } from "../../model/trained-state.ts";
import { type Feeds, requireOutput, tensor } from "../graph-session.ts";
import { gradientTensors } from "../graphs/gradient.ts";
import { lossKind } from "../graphs/loss-head.ts";
import { graphParameters, type RowKind, traceLogProbs, traceTrain, trainLengths } from "../graphs/train.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { sharedSession } from "../shared-sessions.ts";
import type { Lengths } from "../trace/dimensions.ts";
import type { TracedGraph } from "../trace/trace.ts";
import { scatterAdd } from "./arrays.ts";
import { type MicroBatch, rowCount, rowKind } from "./batch-plan.ts";
import { paddedLength } from "./micro-batches.ts";
import type { Passes } from "./passes.ts";
import { forwardFeeds, gatherFeeds, lossFeeds, wantedPredictions } from "./train-inputs.ts";

export class WholePasses implements Passes {
  readonly limitsPredictions = true;
  readonly #state: TrainedState;
  readonly #options: LaneOptions;
  readonly #rotary: RotaryTable;
  readonly #weights: Feeds;
  readonly #parameters: readonly Parameter[];

  constructor(state: TrainedState, options: LaneOptions) {
    const { config, layout, weights } = state;
    this.#state = state;
    this.#options = options;
    this.#rotary = rotaryTable(config, paddedLength(options.contextTokens));
    this.#parameters = graphParameters(config);
    this.#weights = parameterTensors(layout, weights, undefined, this.#parameters);
  }

  async logProbs(sequences: Sequences, temperature: number, plan: readonly MicroBatch[]): Promise<Float32Array[]> {
    const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
    for (const micro of plan) {
      const session = await this.#session("log-probs", micro, traceLogProbs);
      const wanted = wantedPredictions(micro, sequences, EVERY_PREDICTION);
      const { feeds, lengths } = this.#feeds(micro, sequences, temperature, wanted);
      const outputs = await session.run(lengths, feeds);
      scatterLogProbs(logProbs, wanted, requireOutput(outputs, "logProbs"));
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
    const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
    const wantedTokens = weightedPredictions(batch, loss);
    const kind = lossKind(loss);
    const { sums, outputs: into } = gradientTensors(this.#state.layout, gradient, this.#parameters);
    let total = 0;
    for (const micro of plan) {
      const session = await this.#session(`train-${kind}`, micro, (rows) => traceTrain(rows, kind));
      const weighted = wantedPredictions(micro, sequences, wantedTokens);
      const { feeds, tokens, lengths } = this.#feeds(micro, sequences, temperature, weighted);
      const outputs = await session.run(lengths, { ...feeds, ...sums, ...lossFeeds(weighted, batch, loss) }, into);
      this.#addRowGradients(gradient, outputs, weighted.targets, tokens);
      scatterLogProbs(logProbs, weighted, requireOutput(outputs, "logProbs"));
      total += requireOutput(outputs, "loss")[0] ?? Number.NaN;
    }
    return { loss: total, logProbs };
  }

  #session(graph: string, micro: MicroBatch, trace: (kind: RowKind) => (shape: PolicyShape) => TracedGraph) {
    const kind = rowKind(micro);
    const shape = { config: this.#state.config, lora: null };
    return sharedSession(`${graph}-${kind}`, shape, this.#options, trace(kind));
  }

  #feeds(
    micro: MicroBatch,
    sequences: Sequences,
    temperature: number,
    wanted: Predictions,
  ): { feeds: Feeds; tokens: Int32Array; lengths: Lengths } {
    const { width } = this.#state.config;
    const { feeds, inputTokens } = forwardFeeds(micro, sequences, this.#rotary);
    const { feeds: gathered, gathers } = gatherFeeds(wanted, inputTokens.length);
    const embedded = this.#embed(inputTokens);
    return {
      tokens: inputTokens,
      lengths: trainLengths(rowCount(micro), micro.tokens, wanted.row.length, gathers),
      feeds: {
        ...this.#weights,
        ...feeds,
        ...gathered,
        embedded: tensor(embedded, [rowCount(micro), micro.tokens, width]),
        inverseTemperature: tensor(Float32Array.of(1 / temperature), []),
      },
    };
  }

  /** The embedding rows of the given tokens, [N, D]. */
  #embed(tokens: Int32Array): Float32Array {
    const { layout, weights, config } = this.#state;
    const { width } = config;
    const embedding = viewNamed(EMBEDDING, layout, weights);
    const rows = new Float32Array(tokens.length * width);
    tokens.forEach((token, row) => {
      rows.set(embedding.subarray(token * width, (token + 1) * width), row * width);
    });
    return rows;
  }

  /** Accumulates the gradients that the graph returns as rows: the input tokens' embeddings and the targets' head rows. */
  #addRowGradients(
    gradient: Float32Array,
    outputs: Record<string, Float32Array>,
    targets: Int32Array,
    tokens: Int32Array,
  ): void {
    const { config, layout } = this.#state;
    const add = (name: string, rows: Int32Array, output: string) =>
      scatterAdd(viewNamed(name, layout, gradient), rows, requireOutput(outputs, output), config.width);
    add(headName(config), targets, "targetRows");
    add(EMBEDDING, tokens, "embeddedGradient");
  }
}
