/**
 * @file Passes over a small model all of whose weights are trained: one graph each, which keeps every layer's arrays and adds to the
 * gradient of every parameter in place.
 */
import { EMBEDDING, headName, views } from "../../checkpoint/parameters.ts";
import type { TrainedState } from "../../checkpoint/trained-state.ts";
import { checkTrainingSequence } from "../../model/input-checks.ts";
import { rotaryTable } from "../../model/positions.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { gradientTensors } from "../graphs/gradient.ts";
import { traceLogProbs, traceTrain, trainedParameters, trainLengths } from "../graphs/train.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import { sharedSession } from "../shared-sessions.ts";
import { scatterAdd } from "./arrays.ts";
import type { Passes } from "./lane-trainer.ts";
import { type MicroBatch, paddedLength, planMicroBatches } from "./micro-batches.ts";
import {
  clipFeeds,
  forwardFeeds,
  lossFeeds,
  type Predictions,
  pickFeeds,
  predictions,
  scatterLogProbs,
} from "./train-inputs.ts";

export function wholePasses({ config, layout, weights, gradient }: TrainedState, options: LaneOptions): Passes {
  const shape = { config, lora: null };
  const rotary = rotaryTable(config, paddedLength(options.contextTokens));
  const parameters = trainedParameters(config);
  const weightFeeds = parameterTensors(layout, weights, undefined, parameters);
  const { sums, outputs: gradients } = gradientTensors(layout, gradient, parameters);
  const embedding = () => views(layout, weights).get(EMBEDDING) ?? new Float32Array();
  const gradientOf = (name: string) => views(layout, gradient).get(name) ?? new Float32Array();

  const feedsOf = (
    batch: MicroBatch,
    sequences: readonly (readonly number[])[],
    temperature: number,
    asked: Predictions,
  ): { feeds: Feeds; sources: Int32Array } => {
    const { feeds, sources } = forwardFeeds(batch, sequences, rotary);
    const embedded = embed(embedding(), sources, config.width);
    return {
      sources,
      feeds: {
        ...weightFeeds,
        ...feeds,
        ...pickFeeds(asked, sources.length),
        embedded: tensor(embedded, [batch.members.length, batch.tokens, config.width]),
        inverseTemperature: tensor(Float32Array.of(1 / temperature), []),
      },
    };
  };
  const lengths = ({ members, tokens }: MicroBatch, asked: Predictions) =>
    trainLengths(members.length, tokens, asked.member.length);

  const accumulate = (outputs: Record<string, Float32Array>, targets: Int32Array, sources: Int32Array) => {
    const { targetRows, embeddedGradient } = outputs;
    if (!targetRows || !embeddedGradient) throw new Error("the train graph lacks an output");
    scatterAdd(gradientOf(headName(config)), targets, targetRows, config.width);
    scatterAdd(gradientOf(EMBEDDING), sources, embeddedGradient, config.width);
  };

  return {
    async forwardBackward(batch, loss, temperature) {
      for (const sequence of batch) checkTrainingSequence(sequence, loss);
      const sequences = batch.map(({ tokens }) => tokens);
      const session = await sharedSession("train", shape, options, traceTrain);
      const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
      let total = 0;
      for (const micro of planMicroBatches(sequences, config.vocabulary, options)) {
        const asked = predictions(micro, sequences, (member, t) => batch[member]?.weights_T[t] !== 0);
        const { feeds, sources } = feedsOf(micro, sequences, temperature, asked);
        const rows = lossFeeds(asked, batch, loss.kind === "linear");
        const outputs = await session.run(
          lengths(micro, asked),
          { ...feeds, ...sums, ...rows, ...clipFeeds(loss) },
          gradients,
        );
        accumulate(outputs, asked.targets, sources);
        scatterLogProbs(logProbs, asked, outputs["logProbs"]);
        total += outputs["loss"]?.[0] ?? 0;
      }
      return { loss: total, logProbs };
    },
    async logProbs(sequences, temperature) {
      const session = await sharedSession("log-probs", shape, options, traceLogProbs);
      const logProbs = sequences.map((tokens) => new Float32Array(tokens.length));
      for (const micro of planMicroBatches(sequences, config.vocabulary, options)) {
        const asked = predictions(micro, sequences, () => true);
        const { feeds } = feedsOf(micro, sequences, temperature, asked);
        const outputs = await session.run(lengths(micro, asked), feeds);
        scatterLogProbs(logProbs, asked, outputs["logProbs"]);
      }
      return logProbs;
    },
  };
}

/** The embedding's rows of some tokens, one after the other. */
function embed(embedding: Float32Array, tokens: Int32Array, width: number): Float32Array {
  const rows = new Float32Array(tokens.length * width);
  tokens.forEach((token, row) => {
    rows.set(embedding.subarray(token * width, (token + 1) * width), row * width);
  });
  return rows;
}
