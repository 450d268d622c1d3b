/**
 * @file A Trainer whose weights live on a server. The gradient is kept here, as weights of log-probs, until an optimizer step:
 *
 *     forwardBackward   forward on the server ── log-probs ──> loss and dLoss/dlogProb, here
 *     optimizerStep     forward_backward with that gradient as the weights of a linear loss, then optim_step
 *
 * So every loss is the same on every server, at the cost of one extra forward pass. If a server averages over a step's sequences or over a
 * sequence's targets, the weights are scaled by their number; the number of sequences is known only at the step. A step's calls are a function
 * of weights and batch, byte for byte, which lets a successor resume a dead process's step (journal.ts).
 *
 * If a request of `optimizerStep` fails, even the first, part of the gradient, or its update, may be on the server: every later call but `load`
 * and `close` rejects with `replay-failed`.
 */
import type { StepOptimizer } from "../../core/contracts/agent-config.ts";
import type { OptimizerProbe } from "../../core/contracts/server-optimizer.ts";
import { MgrpoError } from "../../core/errors.ts";
import type {
  CallJournal,
  CheckpointFiles,
  EngineOptions,
  ForwardBackward,
  Loss,
  Trainer,
  TrainingSequence,
} from "../../core/ports.ts";
import { closedTrainer } from "../model/closable.ts";
import {
  checkGradient,
  checkOptimizerStep,
  checkSequences,
  checkServerStep,
  checkTrainingSequence,
} from "../model/input-checks.ts";
import type { AdamParams } from "./client/messages.ts";
import { gradientDatum, requestBatches, scoringDatum, withLeadingZero } from "./data.ts";
import { JournaledModel, NO_JOURNAL } from "./journal.ts";
import { objectiveOf } from "./objective.ts";
import { gradientNormOf, type ServerBehavior } from "./probe.ts";
import type { TinkerServer } from "./server.ts";
import { readTinkerVersion, readVocabulary, TINKER_FILE, type TinkerVersion, writeTinkerVersion } from "./version.ts";

/**
 * A sequence's part of the gradient, up to its last nonzero entry. Sequences that are equal up to there are one term, as the gradient is linear
 * in `gradient_T`.
 */
interface GradientTerm {
  readonly tokens: readonly number[];
  readonly logProbs_T: Float32Array;
  readonly gradient_T: Float32Array;
}

type Limits = Pick<EngineOptions, "contextTokens" | "microBatchTokens"> & { readonly vocabulary: number };

/** What a trainer keeps while it is open. */
interface TrainerContext {
  readonly server: TinkerServer;
  /** The server's name for the base model. */
  readonly base: string;
  readonly version: TinkerVersion;
  readonly behavior: ServerBehavior;
  readonly journal: CallJournal;
  readonly limits: Limits;
}

export async function openTinkerTrainer(
  server: TinkerServer,
  files: CheckpointFiles,
  { contextTokens, microBatchTokens, serverOptimizer = false }: EngineOptions,
  journal: CallJournal = NO_JOURNAL,
): Promise<Trainer> {
  const vocabulary = readVocabulary(files);
  const version = readTinkerVersion(files);
  const base = await server.resolve(version, contextTokens);
  const behavior = await server.behavior(base, version, vocabulary);
  if (!serverOptimizer) refuseOwnOptimizer(behavior.optimizer, server.baseUrl);
  const model = await JournaledModel.open(server, base, version, { journal, canResume: behavior.remembersCalls });
  const limits = { vocabulary, contextTokens, microBatchTokens };
  const optimizerProbe = serverOptimizer ? { server: server.baseUrl, ...behavior.optimizer } : undefined;
  return new TinkerTrainer({ server, base, version, behavior, journal, limits }, model, optimizerProbe);
}

/** Maximum number of log-probs that a trainer caches. An optimizer step clears the cache, but the trainer of a reference policy takes no steps. */
const MAXIMUM_CACHED_LOG_PROBS = 2 ** 22;

class TinkerTrainer implements Trainer {
  readonly optimizerProbe?: OptimizerProbe;
  readonly #context: TrainerContext;
  #model: JournaledModel;
  /** By the tokens of the term. */
  readonly #gradient = new Map<string, GradientTerm>();
  /** Log-probs under the current weights, by tokens: the server computes a sequence's once per step, unless the cache overflows. */
  readonly #logProbs = new Map<string, Float32Array>();
  /** Whether a failed step has left the server's model in an unknown state. */
  #isStateLost = false;
  #isClosed = false;

  constructor(context: TrainerContext, model: JournaledModel, optimizerProbe?: OptimizerProbe) {
    this.#context = context;
    this.#model = model;
    if (optimizerProbe) this.optimizerProbe = optimizerProbe;
  }

  async logProbs(sequences: readonly (readonly number[])[], temperature: number): Promise<Float32Array[]> {
    this.#refuseIfUnusable();
    refuseTemperature(temperature);
    this.#checkSequences(sequences);
    return this.#score(sequences);
  }

  async forwardBackward(batch: readonly TrainingSequence[], loss: Loss, temperature: number): Promise<ForwardBackward> {
    this.#refuseIfUnusable();
    refuseTemperature(temperature);
    const sequences = batch.map(({ tokens }) => tokens);
    this.#checkSequences(sequences);
    for (const sequence of batch) checkTrainingSequence(sequence, loss);
    const logProbs = await this.#score(sequences);
    let total = 0;
    for (const [i, sequence] of batch.entries()) {
      const logProbs_T = logProbs[i] as Float32Array;
      const objective = objectiveOf(sequence, logProbs_T, loss);
      total += objective.loss;
      this.#addTerm(sequence.tokens, logProbs_T, objective.gradient_T);
    }
    return { loss: total, logProbs };
  }

  async optimizerStep(config: StepOptimizer, scale = 1): Promise<{ gradientNorm: number }> {
    this.#refuseIfUnusable();
    const { behavior, server, limits } = this.#context;
    const terms = [...this.#gradient.values()];
    try {
      for (const { gradient_T } of terms) checkGradient(gradient_T);
    } catch (error) {
      this.#reset();
      throw error;
    }
    const params = adamParams(config, scale, behavior.clips, server.baseUrl);
    const scaleOf = ({ tokens }: GradientTerm) =>
      scale *
      (behavior.overTokens === "mean" ? tokens.length - 1 : 1) *
      (behavior.overSequences === "mean" ? terms.length : 1);
    const requests = requestBatches(terms, ({ tokens }) => tokens.length, limits.microBatchTokens).map((batch) =>
      batch.map((term) => gradientDatum(term.tokens, term.logProbs_T, term.gradient_T, scaleOf(term))),
    );
    const step = async () => {
      await this.#model.run((model) => model.forwardBackward(requests, "importance_sampling"));
      return this.#model.run((model) => model.optimizerStep(params));
    };
    const result = await step().catch((error: unknown) => {
      this.#isStateLost = true;
      throw error;
    });
    this.#reset();
    return { gradientNorm: gradientNormOf(result) };
  }

  async save(): Promise<Map<string, Uint8Array>> {
    this.#refuseIfUnusable();
    return new Map([[TINKER_FILE, writeTinkerVersion(await this.#model.save())]]);
  }

  async load(from: CheckpointFiles): Promise<void> {
    if (this.#isClosed) throw closedTrainer();
    const { server, base, version, journal } = this.#context;
    const next = readTinkerVersion(from);
    if (next.baseModel !== version.baseModel || next.rank !== version.rank) {
      throw new MgrpoError(
        "checkpoint-damaged",
        `${TINKER_FILE}: it describes a different model from the one this trainer was opened with: load a version of that model`,
      );
    }
    // Weights can only be loaded into a fresh model; an unfinished step is discarded with the old one.
    await this.#model.close();
    this.#reset();
    this.#model = await JournaledModel.open(server, base, next, { journal, canResume: false });
    this.#isStateLost = false;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#model.close();
  }

  #refuseIfUnusable(): void {
    if (this.#isClosed) throw closedTrainer();
    if (!this.#isStateLost) return;
    const fault = "an optimizer step failed, and the server may have applied some of its calls";
    throw new MgrpoError(
      "replay-failed",
      `${this.#context.server.baseUrl}: ${fault}: load a checkpoint and repeat the step`,
    );
  }

  #checkSequences(sequences: readonly (readonly number[])[]): void {
    const { vocabulary, contextTokens } = this.#context.limits;
    checkSequences(sequences, vocabulary, contextTokens);
  }

  #reset(): void {
    this.#gradient.clear();
    this.#logProbs.clear();
  }

  #addTerm(tokens: readonly number[], logProbs_T: Float32Array, gradient_T: Float32Array): void {
    const end = gradient_T.findLastIndex((g) => g !== 0) + 1;
    if (end === 0) return;
    const key = tokens.slice(0, end).join();
    const known = this.#gradient.get(key);
    this.#gradient.set(key, {
      tokens: tokens.slice(0, end),
      logProbs_T: logProbs_T.subarray(0, end),
      gradient_T: known ? known.gradient_T.map((g, t) => g + (gradient_T[t] ?? 0)) : gradient_T.subarray(0, end),
    });
  }

  /** Log-probs under the current weights; asks the server for each distinct sequence once. */
  async #score(sequences: readonly (readonly number[])[]): Promise<Float32Array[]> {
    const known = this.#logProbs;
    const missing = new Map(sequences.filter((tokens) => tokens.length > 1).map((tokens) => [tokens.join(), tokens]));
    for (const key of known.keys()) missing.delete(key);
    const { microBatchTokens } = this.#context.limits;
    const batches = requestBatches([...missing], ([, tokens]) => tokens.length, microBatchTokens);
    const data = batches.map((batch) => batch.map(([, tokens]) => scoringDatum(tokens)));
    const rows = await this.#model.run((model) => model.forward(data, "cross_entropy"));
    for (const [i, [key, tokens]] of [...missing].entries()) {
      known.set(key, checkLogProbs(withLeadingZero(rows[i] ?? []), tokens));
    }
    const found = sequences.map((tokens) => known.get(tokens.join()) ?? new Float32Array(tokens.length));
    this.#forgetOldest();
    return found;
  }

  #forgetOldest(): void {
    let kept = 0;
    for (const { length } of this.#logProbs.values()) kept += length;
    for (const [key, { length }] of this.#logProbs) {
      if (kept <= MAXIMUM_CACHED_LOG_PROBS) return;
      this.#logProbs.delete(key);
      kept -= length;
    }
  }
}

function refuseOwnOptimizer({ followsEpsilon, followsBeta1 }: ServerBehavior["optimizer"], baseUrl: string): void {
  const ignored = [...(followsEpsilon ? [] : ["epsilon"]), ...(followsBeta1 ? [] : ["beta1"])];
  if (ignored.length === 0) return;
  throw new MgrpoError(
    "engine-unsupported",
    `${baseUrl} does not follow all of Adam's settings (${ignored.join(", ")}) and uses its own: set agents.<name>.optimizer to "server" to train with those, or use a server that follows them`,
  );
}

/**
 * For the server's own optimizer, everything but the learning rate is left to the server. Refuses invalid settings, and gradient clipping on a
 * server that does not clip.
 */
function adamParams(config: StepOptimizer, scale: number, clips: boolean, baseUrl: string): AdamParams {
  if ("kind" in config) {
    checkServerStep(config, scale);
    return { learning_rate: config.learningRate };
  }
  checkOptimizerStep(config, scale);
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradientNorm } = config;
  if (maxGradientNorm !== null && !clips) {
    throw new MgrpoError(
      "config-invalid",
      `optimizer.maxGradientNorm is ${maxGradientNorm}, but ${baseUrl} does not clip gradients: set it to null, and choose a learning rate that needs no clipping`,
    );
  }
  return {
    learning_rate: learningRate,
    beta1,
    beta2,
    eps: epsilon,
    weight_decay: weightDecay,
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

function checkLogProbs(logProbs_T: Float32Array, tokens: readonly number[]): Float32Array {
  if (logProbs_T.length === tokens.length && logProbs_T.every(Number.isFinite)) return logProbs_T;
  throw new MgrpoError(
    "endpoint-refused",
    `forward: the Tinker server did not return a finite log-prob for each of ${tokens.length - 1} targets: check its model and its precision`,
  );
}
