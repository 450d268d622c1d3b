/**
 * @file A Trainer whose weights lie on a server. The gradient is kept here, as weights of log-probs, until a step is made of it:
 *
 *     forwardBackward   forward on the server ── log-probs ──> loss and dLoss/dlogProb, here
 *     optimizerStep     forward_backward with those as weights of a linear loss, then optim_step
 *
 * Any loss is thus the same on any server, at the price of a forward pass; and a server that averages over the sequences of a step is
 * told their number, which is known only when the step is made. A step's calls follow from the weights and the batch alone, byte for byte:
 * that is how a step that a dead process began is gone on with (journal.ts).
 */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CallJournal, CheckpointFiles, EngineOptions, Trainer } from "../../core/ports.ts";
import { checkGradient, checkTokens, checkTraining } from "../sequences.ts";
import { aligned, batches, scored, weighted } from "./data.ts";
import { NO_JOURNAL, openJournaledModel } from "./journal.ts";
import { objectiveOf } from "./objective.ts";
import { gradientNormOf } from "./probe.ts";
import type { TinkerServer } from "./server.ts";
import { readTinkerVersion, readVocabulary, TINKER_FILE, writeTinkerVersion } from "./version.ts";

/** A sequence that has a part in the gradient, up to its last token that weighs. */
interface Term {
  readonly tokens: readonly number[];
  readonly logProbs_T: Float32Array;
  readonly gradient_T: Float32Array;
}

export async function openTinkerTrainer(
  server: TinkerServer,
  files: CheckpointFiles,
  { contextTokens, microBatchTokens }: EngineOptions,
  journal: CallJournal = NO_JOURNAL,
): Promise<Trainer> {
  const vocabulary = readVocabulary(files);
  const version = readTinkerVersion(files);
  const base = await server.resolve(version, contextTokens);
  const behaviour = await server.behaviour(base, version, vocabulary);
  let model = await openJournaledModel(server, base, version, { journal, resumes: behaviour.remembersCalls });
  let gradient: Term[] = [];
  /** Log-probs under the weights as they are, by tokens: the linear loss asks for them a second time. */
  const known = new Map<string, Float32Array>();

  function forget() {
    gradient = [];
    known.clear();
  }

  async function logProbsOf(sequences: readonly (readonly number[])[]): Promise<Float32Array[]> {
    const unknown = new Map(sequences.filter((tokens) => tokens.length > 1).map((tokens) => [tokens.join(), tokens]));
    for (const key of known.keys()) unknown.delete(key);
    const asked = batches([...unknown], ([, tokens]) => tokens.length, microBatchTokens);
    const data = asked.map((batch) => batch.map(([, tokens]) => scored(tokens)));
    const rows = await model.on((it) => it.forward(data, "cross_entropy"));
    for (const [i, [key, tokens]] of [...unknown].entries()) known.set(key, checked(aligned(rows[i] ?? []), tokens));
    return sequences.map((tokens) => known.get(tokens.join()) ?? new Float32Array(tokens.length));
  }

  return {
    async logProbs(sequences, temperature) {
      refuseTemperature(temperature);
      for (const tokens of sequences) checkTokens(tokens, vocabulary, contextTokens);
      return logProbsOf(sequences);
    },
    async forwardBackward(batch, loss, temperature) {
      refuseTemperature(temperature);
      for (const sequence of batch) {
        checkTokens(sequence.tokens, vocabulary, contextTokens);
        checkTraining(sequence, loss);
      }
      const logProbs = await logProbsOf(batch.map(({ tokens }) => tokens));
      const objectives = batch.map((sequence, i) => objectiveOf(sequence, logProbs[i] as Float32Array, loss));
      for (const [i, { gradient_T }] of objectives.entries()) {
        const end = gradient_T.findLastIndex((g) => g !== 0) + 1;
        if (end === 0) continue;
        const upToEnd = (row: Float32Array) => row.subarray(0, end);
        gradient.push({
          tokens: batch[i]?.tokens.slice(0, end) ?? [],
          logProbs_T: upToEnd(logProbs[i] as Float32Array),
          gradient_T: upToEnd(gradient_T),
        });
      }
      return { loss: objectives.reduce((sum, objective) => sum + objective.loss, 0), logProbs };
    },
    async optimizerStep(config, scale = 1) {
      for (const { gradient_T } of gradient) checkGradient(gradient_T);
      const params = adamParams(config, behaviour.clips, server.baseUrl);
      const scaleOf = ({ tokens }: Term) =>
        scale *
        (behaviour.overTokens === "mean" ? tokens.length - 1 : 1) *
        (behaviour.overSequences === "mean" ? gradient.length : 1);
      const requests = batches(gradient, ({ tokens }) => tokens.length, microBatchTokens).map((terms) =>
        terms.map((term) => weighted(term.tokens, term.logProbs_T, term.gradient_T, scaleOf(term))),
      );
      await model.on((it) => it.forwardBackward(requests, "importance_sampling"));
      const result = await model.on((it) => it.optimizerStep(params));
      forget();
      return { gradientNorm: gradientNormOf(result) };
    },
    async save() {
      return new Map([[TINKER_FILE, writeTinkerVersion(await model.save())]]);
    },
    async load(from) {
      const next = readTinkerVersion(from);
      if (next.baseModel !== version.baseModel || next.rank !== version.rank) {
        throw new MgrpoError(
          "checkpoint-damaged",
          `${TINKER_FILE}: another model than the one this trainer was opened with`,
        );
      }
      // A server loads into a fresh model only; what the old one was in the middle of is left with it.
      await model.leave();
      forget();
      model = await openJournaledModel(server, base, next, { journal, resumes: false });
    },
    close: () => model.leave(),
  };
}

function adamParams(config: OptimizerConfig, clips: boolean, baseUrl: string) {
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradientNorm } = config;
  if (maxGradientNorm !== null && !clips) {
    throw new MgrpoError(
      "config-invalid",
      `optimizer.maxGradientNorm is ${maxGradientNorm}, but ${baseUrl} does not clip gradients: set it to null, and the learning rate with that in mind`,
    );
  }
  return {
    ...{ learning_rate: learningRate, beta1, beta2, eps: epsilon, weight_decay: weightDecay },
    grad_clip_norm: maxGradientNorm ?? 0,
  };
}

function refuseTemperature(temperature: number): void {
  if (temperature === 1) return;
  throw new MgrpoError(
    "config-invalid",
    `temperature is ${temperature}, but a Tinker server computes log-probs at 1: set temperature to 1`,
  );
}

function checked(logProbs_T: Float32Array, tokens: readonly number[]): Float32Array {
  if (logProbs_T.length === tokens.length && logProbs_T.every(Number.isFinite)) return logProbs_T;
  throw new MgrpoError(
    "endpoint-refused",
    `forward: the Tinker server gave no finite log-prob for each of ${tokens.length - 1} targets: look at its model and its precision`,
  );
}
