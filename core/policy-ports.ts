import type { OptimizerConfig } from "./contracts/agent-config.ts";
import type { Precision, ProviderChoice } from "./contracts/engine.ts";
import type { Sampling } from "./contracts/rollout.ts";
import type { TinkerCalls } from "./contracts/tinker-calls.ts";

/** A file on this machine that is too large to be carried around as bytes: read in parts, or mapped. It does not change while it is used. */
export interface LocalFile {
  readonly path: string;
  readonly bytes: number;
  /** Where other machines find the same bytes: an `s3://` address. Absent: nowhere. */
  readonly origin?: string;
}

export type CheckpointFile = Uint8Array | LocalFile;

/** Files of a checkpoint in the Hugging Face layout, by name. */
export type CheckpointFiles = ReadonlyMap<string, CheckpointFile>;

export interface SampleRequest {
  /**
   * The conversation this belongs to. While it is open the engine may keep its key/value cache, if its tokens are a prefix of
   * `tokens`; `release` ends it. But for rounding, numbers must not depend on whether the cache was there.
   */
  readonly sequence: string;
  /** The whole prefix, in the policy's own tokens. */
  readonly tokens: readonly number[];
  readonly maxTokens: number;
  /** Generation ends after any of these (their tokens are part of the sample). */
  readonly stop: readonly (readonly number[])[];
  readonly sampling: Sampling;
  /** Name of the random stream of this turn. */
  readonly stream: readonly (string | number)[];
}

export interface Sample {
  /** Sampled tokens, the stop sequence included. */
  readonly tokens: readonly number[];
  /** log p of each, at the sampling temperature, before top-p and top-k. Greedy: at temperature 1. */
  readonly logProbs: readonly number[];
  readonly stop: "stop" | "length";
}

/**
 * Samples from one version of one policy. Law: a sequence's bits depend on its own requests and the engine's configuration
 * only, never on its slot, its neighbours or timing.
 */
export interface Sampler {
  /** Rejects with `cancelled` when the signal aborts. */
  sample(request: SampleRequest, signal?: AbortSignal): Promise<Sample>;
  release(sequence: string): void;
  close(): Promise<void>;
}

/**
 * One sequence of a batch. T tokens; every `_T` array has T entries, entry t belongs to the prediction of token t from tokens 0..t-1,
 * entry 0 is ignored.
 */
export interface TrainingSequence {
  readonly tokens: readonly number[];
  /** `linear`: dLoss/dlogProb. `clipped-token`: weight of the token's term in the loss, >= 0; 0 masks it. */
  readonly weights_T: Float32Array;
  /** `clipped-token` only. */
  readonly advantages_T?: Float32Array;
  /** `clipped-token` only: log-probs under the behaviour policy. */
  readonly behaviourLogProbs_T?: Float32Array;
}

/** Losses are minimised. linear: sum w*logProb. clipped-token: -sum w*min(r*A, clip(r, 1-low, 1+high)*A), r = exp(logProb - behaviour). */
export type Loss =
  | { readonly kind: "linear" }
  | { readonly kind: "clipped-token"; readonly clipLow: number; readonly clipHigh: number };

export interface ForwardBackward {
  readonly loss: number;
  /** Per sequence, log-probs_T before the update at `temperature` of the tokens that weigh in the loss; other entries mean nothing. */
  readonly logProbs: readonly Float32Array[];
}

/**
 * Trains one policy. Gradients accumulate over forwardBackward calls until optimizerStep. The engine knows nothing of M-GRPO. One that
 * went on with what a dead process left may reject with `replay-failed`: whoever then `load`s can begin the step anew.
 */
export interface Trainer {
  /** Per sequence, log-probs_T at the temperature; no gradient. */
  logProbs(sequences: readonly (readonly number[])[], temperature: number): Promise<Float32Array[]>;
  forwardBackward(batch: readonly TrainingSequence[], loss: Loss, temperature: number): Promise<ForwardBackward>;
  /** AdamW on `scale` (1 by default) times the accumulated gradient, clipped by global norm; then the gradient is zero. The norm is that of both. */
  optimizerStep(config: OptimizerConfig, scale?: number): Promise<{ gradientNorm: number }>;
  /**
   * The files that are the state. Engines that hold it: what is trained, `model.safetensors` or `adapter_model.safetensors`, and
   * `optimizer.safetensors`, byte for byte a function of it. Engines whose server holds it: `tinker.json`, which names it there.
   */
  save(): Promise<Map<string, Uint8Array>>;
  /** Replaces what is trained and the optimizer's state (absent file: a fresh one), and drops any gradient. The base of an adapter stays. */
  load(files: CheckpointFiles): Promise<void>;
  close(): Promise<void>;
}

/**
 * Where a trainer whose model outlives it, on a server, writes each call down before it is made, for the process that comes after it. Who
 * took the journal last is its one writer.
 */
export interface CallJournal {
  /** Makes the caller the writer, and tells what was written last. Null: nothing that could be gone on from. */
  take(): Promise<TinkerCalls | null>;
  /** Writes over what is there. Rejects with `claim-lost` once another has taken it. */
  write(calls: TinkerCalls | null): Promise<void>;
}

export interface EngineOptions {
  /** Of engines that have a choice. Absent: the CPU. */
  readonly provider?: ProviderChoice;
  /** Absent: fp32. */
  readonly precision?: Precision;
  /** Threads that compute at the same time. */
  readonly threads: number;
  readonly slots: number;
  /** Longest sequence, in tokens. */
  readonly contextTokens: number;
  readonly microBatchTokens: number;
}

/**
 * An engine: opens samplers and trainers on checkpoints. Damaged or unsupported ones are refused with the file and the reason. A
 * checkpoint with an adapter (PEFT's two files) is sampled with it, and nothing but the adapter is trained.
 */
export interface PolicyEngine {
  openSampler(files: CheckpointFiles, options: EngineOptions): Promise<Sampler>;
  /** `journal`: of the agent's one trainer. Engines whose state dies with the process have no use for it. */
  openTrainer(files: CheckpointFiles, options: EngineOptions, journal?: CallJournal): Promise<Trainer>;
  /** Rejects when what it computes on is not there: its package, or a server, or this model on it. Absent: it computes here. */
  check?(files: CheckpointFiles, options: EngineOptions): Promise<void>;
  /** Says what it computes on here, once that has been seen to work; rejects where it does not. Absent: on what every machine has. */
  computesOn?(options: EngineOptions): Promise<string>;
  /** Deletes what a version that nobody will ask for again keeps outside its files; gone already is fine. Absent: nothing is. */
  discard?(files: CheckpointFiles): Promise<void>;
}

/** An agent's own tokenizer and chat template. Text never crosses agents as tokens. */
export interface Tokenizer {
  /** Tokens of text as data: markers such as <|im_start|> inside it never become special tokens. */
  encodeText(text: string): number[];
  /** Tokens of text that this program wrote (template output): markers become special tokens. */
  encodeTemplate(text: string): number[];
  /** Text of tokens, special tokens included. */
  decode(tokens: readonly number[]): string;
  /** Renders messages by the checkpoint's Jinja chat template. `thinking`: its `enable_thinking`; refused where it has none. */
  render(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    addGenerationPrompt: boolean,
    thinking?: boolean,
  ): string;
  /** Token that ends an assistant turn in the chat template. */
  readonly endOfTurn: number;
  /** Tokens that end generation: `endOfTurn`, then what else generation_config.json names. */
  readonly ends: readonly number[];
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
}

/** A tool as chat templates take it: the OpenAI function format. */
export interface ToolSchema {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description: string; readonly parameters: unknown };
}
