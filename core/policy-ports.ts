/** @file The ports of policies: checkpoints, the engines that sample from them and train them, and their tokenizers. */
import type { StepOptimizer } from "./contracts/agent-config.ts";
import type {
  GradientCheckpointing,
  Precision,
  ProviderChoice,
  Quantization,
  WeightPacking,
} from "./contracts/engine.ts";
import type { Sampling } from "./contracts/rollout.ts";
import type { OptimizerProbe } from "./contracts/server-optimizer.ts";
import type { TinkerCalls } from "./contracts/tinker-calls.ts";

/** A file on this machine that is too large to hold in memory: it is read in parts, or mapped. It does not change while it is used. */
export interface LocalFile {
  readonly path: string;
  readonly bytes: number;
  /** Where other machines get the same bytes: `s3://…`, or `hf:<owner>/<name>@<commit>/<file>`. Absent: nowhere. */
  readonly origin?: string;
}

export type CheckpointFile = Uint8Array | LocalFile;

/** The files of a checkpoint in the Hugging Face layout, by name. */
export type CheckpointFiles = ReadonlyMap<string, CheckpointFile>;

/**
 * One turn to sample. A prefix that is empty or longer than the engine's `contextTokens` is rejected with `config-invalid`, a token outside the
 * vocabulary with `tokenizer-damaged`, and one that is no id (negative or not an integer) with `config-invalid`.
 */
export interface SampleRequest {
  /**
   * The conversation that this request belongs to. Until `release`, the engine may keep its KV cache and use it if its tokens are a prefix
   * of `tokens`. Up to rounding, results must not depend on the cache.
   */
  readonly sequence: string;
  /**
   * A sequence, not yet released, whose first `sharedTokens` tokens this one shares. On the first request of this sequence, an engine with a KV
   * cache starts from a copy of the other's, and the sample's bits are those of a further turn of the other sequence. Absent: none.
   */
  readonly branchOf?: { readonly sequence: string; readonly sharedTokens: number };
  /** The whole prefix, as tokens of the policy's own tokenizer. */
  readonly tokens: readonly number[];
  readonly maxTokens: number;
  /** Stop sequences. They are part of the sample. */
  readonly stop: readonly (readonly number[])[];
  readonly sampling: Sampling;
  /** The name of this turn's random stream. */
  readonly stream: readonly (string | number)[];
}

/** A sampled turn: at most `maxTokens` tokens, fewer if a stop sequence ends it or the context is full, none if it was full before. */
export interface Sample {
  /** Sampled tokens, the stop sequence included. */
  readonly tokens: readonly number[];
  /** Log-prob of each token at the sampling temperature, before top-p and top-k. With greedy sampling: at temperature 1. */
  readonly logProbs: readonly number[];
  readonly stop: "stop" | "length";
}

/**
 * Samples from one version of one policy. Invariant, up to the exceptions that engine/README.md lists: the bits of a sequence's samples depend
 * only on its own requests, those that it shares as a branch, and the engine's configuration, never on its slot, other sequences or timing.
 * A request's arrays must not change until it settles.
 */
export interface Sampler {
  /** Rejects with `canceled` when the signal aborts. */
  sample(request: SampleRequest, signal?: AbortSignal): Promise<Sample>;
  release(sequence: string): void;
  /** Cancels open requests; later ones reject with `canceled`. */
  close(): Promise<void>;
}

/**
 * One sequence of a batch, with T tokens. Entry t of each `_T` array belongs to the prediction of token t from tokens 0..t-1. Entry 0 is
 * ignored.
 */
export interface TrainingSequence {
  readonly tokens: readonly number[];
  /**
   * `linear`, `linear-entropy`: dLoss/dlogProb. `clipped-token`: weight of the token in the loss, >= 0. A token whose weights are all 0 is
   * masked.
   */
  readonly weights_T: Float32Array;
  /** `clipped-token` only. */
  readonly advantages_T?: Float32Array;
  /** `clipped-token` only: log-probs under the behavior policy. */
  readonly behaviorLogProbs_T?: Float32Array;
  /** `linear-entropy` only: weight, >= 0, of the entropy of the distribution that predicts the token. */
  readonly entropyWeights_T?: Float32Array;
}

/**
 * A loss to minimize. linear: sum w*logProb. clipped-token: -sum w*min(r*A, clip(r, 1-low, 1+high)*A), r = exp(logProb - behavior).
 * linear-entropy: sum w*logProb - sum u*H, H in nats at `temperature`; an engine that sees only log-probs of given tokens refuses it.
 */
export type Loss =
  | { readonly kind: "linear" }
  | { readonly kind: "linear-entropy" }
  | { readonly kind: "clipped-token"; readonly clipLow: number; readonly clipHigh: number };

/** What a pass over a batch computed. `loss` is the sum that `Loss` defines, not a mean; its gradient is added to the trainer's. */
export interface ForwardBackward {
  readonly loss: number;
  /** Per sequence, log-probs_T before the update, at `temperature`. Entries of tokens without weight are meaningless. */
  readonly logProbs: readonly Float32Array[];
}

/** A file that a trainer saved. */
export type SavedFile = readonly [name: string, bytes: Uint8Array];

/**
 * Trains one policy. Gradients accumulate over forwardBackward calls until optimizerStep. The engine is unaware of M-GRPO. An engine that
 * resumes a dead process's step, or whose server has lost the model, may reject with `replay-failed`; the caller then calls `load` and repeats
 * the step. The arrays that a call gets must not change until it settles.
 */
export interface Trainer {
  /** Per sequence, log-probs_T at the temperature, without a gradient. */
  logProbs(sequences: readonly (readonly number[])[], temperature: number): Promise<Float32Array[]>;
  forwardBackward(batch: readonly TrainingSequence[], loss: Loss, temperature: number): Promise<ForwardBackward>;
  /**
   * AdamW on the accumulated gradient times `scale` (default 1), clipped by its global norm. Then the gradient is reset to zero, even if it
   * is refused because it is not finite (`run-halted`), so that the next batch can be trained on. Returns the global norm of the scaled
   * gradient before clipping. Under `decayed: matrices`, one-dimensional parameters have no weight decay.
   * `kind: "server"` is only for engines whose server has an optimizer; the config refuses it for others.
   */
  optimizerStep(config: StepOptimizer, scale?: number): Promise<{ gradientNorm: number }>;
  /** Norm of the gradient added since the last `gradientNorm` or `optimizerStep`. Absent: the engine does not see gradients. */
  gradientNorm?(): Promise<number>;
  /**
   * The state as files. If the engine holds it: the trained weights (`model.safetensors` or `adapter_model.safetensors`) and
   * `optimizer.safetensors`, or shards of them with an index; the same state gives the same bytes. If a server holds it: `tinker.json`,
   * which names the state on the server.
   */
  save(): Promise<Map<string, Uint8Array>>;
  /**
   * The files of `save` in its order, weights first, each made when the caller asks for it, so only one is held at a time. No other
   * call may come in between. Absent: the files of `save` are small.
   */
  saveFiles?(): AsyncIterable<SavedFile>;
  /**
   * Replaces the trained weights and the optimizer's state (a fresh one if its file is absent), and drops any gradient. An adapter's base
   * stays.
   */
  load(files: CheckpointFiles): Promise<void>;
  /** Later calls reject with `canceled`. */
  close(): Promise<void>;
  /** Measurements of the server's own optimizer, for a trainer opened with `serverOptimizer`. */
  readonly optimizerProbe?: OptimizerProbe;
}

/**
 * The journal of a trainer whose model lives on a server and survives the process: each call is written before it is made, for the next
 * process. The last process that took the journal is its only writer.
 */
export interface CallJournal {
  /** Makes the caller the writer, and returns the last entry. Null: there is nothing to continue. */
  take(): Promise<TinkerCalls | null>;
  /** Overwrites the journal. Rejects with `claim-lost` once another process has taken it. */
  write(calls: TinkerCalls | null): Promise<void>;
}

/** Wall-clock limits of an engine's calls. An engine that can end a hanging call rejects it with `deadline` at the limit. */
export interface EngineLimits {
  /** For one sampled turn. */
  readonly turnSeconds: number;
  /** For one trainer call, and for opening a sampler or trainer. */
  readonly trainingSeconds: number;
}

/**
 * What an engine is opened with. The same files, options and requests give the same bits only on one kind of machine. `openSampler` and
 * `openTrainer` of `mgrpo/engine` have a default for each required option.
 */
export interface EngineOptions {
  /** Absent: no limits. */
  readonly limits?: EngineLimits;
  /** For engines that support several. Absent: the CPU. */
  readonly provider?: ProviderChoice;
  /** Absent: fp32. */
  readonly precision?: Precision;
  /** Whether the sampler reorders ("packs") the weights of a frozen base under an adapter for its matrix products. Absent: auto. */
  readonly weightPacking?: WeightPacking;
  /** Whether training recomputes each layer for its gradient. Absent: auto. */
  readonly gradientCheckpointing?: GradientCheckpointing;
  /** Of a frozen base under an adapter. Absent: none. */
  readonly quantization?: Quantization;
  /** Compute threads. */
  readonly threads: number;
  /** Whether the process has its machine to itself: threads spin while they wait, and `auto` plans with more memory. Absent: false. */
  readonly dedicated?: boolean;
  /** KV-cache slots: sequences that are decoded together. */
  readonly slots: number;
  /** Longest sequence, in tokens. */
  readonly contextTokens: number;
  readonly microBatchTokens: number;
  /** Whether training computes a shared prefix once for all its sequences, where the estimated gain is worth it. Absent: true. */
  readonly prefixTrees?: boolean;
  /** Whether a trainer may use its server's own optimizer. Absent: a server that ignores the settings of AdamW is refused. */
  readonly serverOptimizer?: boolean;
  /** Maximum bytes of a file that a trainer saves, unless a single tensor is larger. Absent: 1 GiB. */
  readonly shardBytes?: number;
}

/**
 * Opens samplers and trainers on checkpoints. Damaged or unsupported checkpoints are refused with the file and the reason. If a checkpoint
 * has an adapter (PEFT's two files), it is sampled with the adapter, and only the adapter is trained.
 */
export interface PolicyEngine {
  openSampler(files: CheckpointFiles, options: EngineOptions): Promise<Sampler>;
  /** `journal`: the call journal of the agent's trainer. Engines whose state dies with the process do not need it. */
  openTrainer(files: CheckpointFiles, options: EngineOptions, journal?: CallJournal): Promise<Trainer>;
  /** Rejects if the engine's package, its server, or this model on it is missing. Absent: the engine needs nothing else. */
  check?(files: CheckpointFiles, options: EngineOptions): Promise<void>;
  /** Tests the providers that `options` allows. Returns the chosen one and why; rejects if a GPU named there fails. Absent: no choice. */
  computesOn?(options: EngineOptions): Promise<string>;
  /** Deletes a version's data outside its files once it is no longer needed. Idempotent. Absent: there is no such data. */
  discard?(files: CheckpointFiles): Promise<void>;
}

/** An agent's own tokenizer and chat template. Agents exchange text, never tokens. */
export interface Tokenizer {
  /** Tokens of untrusted text: markers such as <|im_start|> in it never become special tokens. */
  encodeText(text: string): number[];
  /** Tokens of text that the program wrote (template output): markers become special tokens. */
  encodeTemplate(text: string): number[];
  /** The text of tokens, special tokens included. */
  decode(tokens: readonly number[]): string;
  /** Renders messages with the checkpoint's Jinja chat template. `thinking`: its `enable_thinking`; refused if the template has none. */
  render(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    addGenerationPrompt: boolean,
    thinking?: boolean,
  ): string;
  /** The template declares that its model learned its tools from demonstrations, so nothing describes them (tool-display.ts). */
  readonly knowsTools: boolean;
  /** The token that ends an assistant turn in the chat template. */
  readonly endOfTurn: number;
  /** Tokens that end generation: `endOfTurn`, then the others from generation_config.json or, if absent, config.json. */
  readonly ends: readonly number[];
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
}

/** A tool in the form that chat templates expect: the OpenAI function format. */
export interface ToolSchema {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description: string; readonly parameters: unknown };
}
