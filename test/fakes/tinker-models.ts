/**
 * @file The models of a Tinker server, on a local engine: the losses, reductions and optimizer steps as SkyRL's JAX backend
 * computes them (loss_fns.py, jax.py), or as hosted Tinker documents them. `TinkerRules` has the differences, including those of
 * SkyRL's other backends.
 */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type {
  CheckpointFiles,
  EngineOptions,
  PolicyEngine,
  Sampler,
  Trainer,
  TrainingSequence,
} from "../../core/ports.ts";
import type {
  AdamParams,
  Datum,
  PassInput,
  SampledModel,
  SampleResult,
  SamplingParams,
} from "../../engine/tinker/client/messages.ts";

export interface TinkerRules {
  /** `mean`: over the tokens of a sequence, then over the sequences of a step (SkyRL's JAX). `sum`: hosted. */
  readonly reduction: "sum" | "mean";
  /** Whether grad_clip_norm is applied (hosted) or ignored (SkyRL). */
  readonly clips: boolean;
  /** Whether a request with a repeated sequence number is deduplicated (SkyRL, as long as its database exists) or executed again. */
  readonly deduplicates: boolean;
  /**
   * Adam's settings, learning rate aside. `request`: the request's; `own`: the server's (SkyRL's FSDP and Megatron);
   * `own-betas`: the server's betas, and the rest from the request.
   */
  readonly adam: "request" | "own" | "own-betas";
  /** Whether the base model can be sampled without an adapter (not on SkyRL's Megatron). */
  readonly samplesBase: boolean;
  /** Whether the learning rate is applied, or replaced by 1e-3. */
  readonly rate: boolean;
  /**
   * What sampling a path does. `path`: samples what was saved (hosted). `slot` (SkyRL's JAX): first loads the
   * saved weights into the model that saved them, which must still exist. If the same path was the last one sampled on
   * that model, nothing is loaded: the model's current weights are sampled.
   */
  readonly samples: "path" | "slot";
  /** How many models the server can hold at once. At the limit, the error is that of SkyRL's FSDP if this is 1, otherwise that of SkyRL's JAX. */
  readonly adapters: number;
}

const RULES = { deduplicates: true, adam: "request", rate: true, samplesBase: true, adapters: 31 } as const;
export const SKYRL_JAX: TinkerRules = { ...RULES, reduction: "mean", clips: false, samples: "slot" };
export const HOSTED: TinkerRules = { ...RULES, reduction: "sum", clips: true, samples: "path" };

/** The operation fails: its future reports this error. */
export class OperationFailed extends Error {}

/** SkyRL's error for one adapter too many: Ray's traceback of an FSDP worker (worker.py), or JAX's line, which counts the base model (jax.py). */
const adapterLimit = (adapters: number): string =>
  adapters > 1
    ? `Maximum number of LoRA adapters (${adapters + 1}) reached`
    : `ray::FSDPPolicyWorkerBase.register_adapter() (pid=7, ip=10.0.0.1)
  File "worker.py", line 1390, in register_adapter
    self._adapter_store_unsupported("register_adapter")
NotImplementedError: FSDPPolicyWorkerBase.register_adapter is not implemented: multi-tenant LoRA adapter management (the adapter store) is currently only supported on the Megatron backend. The FSDP backend supports a single LoRA adapter (or full fine-tuning) per worker group.`;

interface Model {
  readonly trainer: Trainer;
  /** The step's data so far: one sequence per datum, with the loss's derivatives by log-prob as weights. */
  gradient: TrainingSequence[];
  /** Optimizer steps with a learning rate above 0 that led to the current weights. */
  steps: number;
  /** With `samples: "slot"`: the path whose weights were loaded for sampling last. */
  sampled: string | undefined;
  /** With `samples: "slot"`: the current state as files, base included; undefined until it is sampled, and again after a change. */
  files: CheckpointFiles | undefined;
}

export interface Saved {
  readonly kind: "weights" | "sampler";
  readonly model: string;
  readonly files: CheckpointFiles;
  /** The model's `steps` when it was saved; a model that loads a checkpoint continues its count. */
  readonly steps: number;
}

/** A pass or an optimizer step that was actually computed, with its input. */
export interface Computed {
  readonly model: string;
  readonly kind: "forward" | "forward_backward" | "optim_step";
  readonly of: PassInput | AdamParams;
}

export class TinkerModels {
  readonly rules: TinkerRules;
  readonly computed: Computed[] = [];
  readonly saved = new Map<string, Saved>();
  private readonly engine: PolicyEngine;
  private readonly base: CheckpointFiles;
  private readonly options: EngineOptions;
  private models = new Map<string, Model>();
  private samples = 0;
  private samplers = new Map<CheckpointFiles, Promise<Sampler>>();

  constructor(engine: PolicyEngine, base: CheckpointFiles, options: EngineOptions, rules: TinkerRules) {
    this.engine = engine;
    this.base = base;
    this.options = options;
    this.rules = rules;
  }

  /** As after kill -9: saved weights remain, models are gone. */
  forgetModels(): void {
    this.models = new Map();
  }

  get loaded(): string[] {
    return [...this.models.keys()];
  }

  async create(id: string): Promise<void> {
    const { adapters } = this.rules;
    if (this.models.size >= adapters) throw new OperationFailed(adapterLimit(adapters));
    const trainer = await this.engine.openTrainer(this.base, this.options);
    this.models.set(id, { trainer, gradient: [], steps: 0, sampled: undefined, files: undefined });
  }

  async unload(id: string): Promise<void> {
    await this.model(id).trainer.close();
    this.models.delete(id);
  }

  async forward(id: string, input: PassInput): Promise<number[][]> {
    const rows = await this.logProbs(id, input);
    this.computed.push({ model: id, kind: "forward", of: input });
    return rows;
  }

  async forwardBackward(id: string, input: PassInput): Promise<number[][]> {
    const rows = await this.logProbs(id, input);
    this.computed.push({ model: id, kind: "forward_backward", of: input });
    for (const [i, datum] of input.data.entries()) {
      const weights = derivatives(input.loss_fn, datum, rows[i] ?? [], this.rules.reduction);
      this.model(id).gradient.push({ tokens: tokensOf(datum), weights_T: Float32Array.of(0, ...weights) });
    }
    return rows;
  }

  async optimizerStep(id: string, params: AdamParams): Promise<number> {
    const model = this.model(id);
    this.computed.push({ model: id, kind: "optim_step", of: params });
    const divisor = this.rules.reduction === "mean" ? Math.max(1, model.gradient.length) : 1;
    const batch = model.gradient.map(({ tokens, weights_T }) => ({
      tokens,
      weights_T: weights_T.map((w) => w / divisor),
    }));
    model.gradient = [];
    if (batch.length > 0) await model.trainer.forwardBackward(batch, { kind: "linear" }, 1);
    const config = configOf(params, this.rules);
    const { gradientNorm } = await model.trainer.optimizerStep(config);
    if (config.learningRate > 0) model.steps += 1;
    model.files = undefined;
    return gradientNorm;
  }

  async save(id: string, kind: Saved["kind"], path: string): Promise<void> {
    const { trainer, steps } = this.model(id);
    this.saved.set(path, { kind, model: id, steps, files: new Map([...this.base, ...(await trainer.save())]) });
  }

  async load(id: string, path: string): Promise<void> {
    const saved = this.saved.get(path);
    if (!saved) throw new OperationFailed(`Checkpoint not found: ${path}`);
    const model = this.model(id);
    await model.trainer.load(saved.files);
    model.steps = saved.steps;
    model.files = undefined;
  }

  async sample(
    from: SampledModel,
    prompt: readonly number[],
    { seed = 0, stop = [], ...params }: SamplingParams,
  ): Promise<SampleResult> {
    if ("base_model" in from && !this.rules.samplesBase)
      throw new OperationFailed("Sampling requested for unknown model_id(s)");
    const files = "base_model" in from ? this.base : await this.filesToSample(from.model_path);
    const opened = this.samplers.get(files) ?? this.engine.openSampler(files, this.options);
    this.samplers.set(files, opened);
    const sampler = await opened;
    const sequence = String(this.samples++);
    const sample = await sampler.sample({
      ...{ sequence, tokens: prompt, maxTokens: params.max_tokens, stop: stop.map((token) => [token]) },
      sampling: { temperature: params.temperature, topP: params.top_p, topK: Math.max(0, params.top_k) },
      stream: [seed],
    });
    sampler.release(sequence);
    const { tokens, logProbs: logprobs, stop: stop_reason } = sample;
    return { sequences: [{ tokens: [...tokens], logprobs: [...logprobs], stop_reason }] };
  }

  private async logProbs(id: string, { data }: PassInput): Promise<number[][]> {
    const rows = await this.model(id).trainer.logProbs(data.map(tokensOf), 1);
    return rows.map((row) => [...row.slice(1)]);
  }

  private async filesToSample(path: string): Promise<CheckpointFiles> {
    const saved = this.saved.get(path);
    if (!saved) throw new OperationFailed(`Checkpoint not found: ${path}`);
    if (this.rules.samples === "path") return saved.files;
    const model = this.model(saved.model);
    if (model.sampled !== path) {
      const adam = [...(await model.trainer.save())].filter(([name]) => name.startsWith("optimizer"));
      await model.trainer.load(new Map([...saved.files, ...adam]));
      Object.assign(model, { sampled: path, steps: saved.steps, files: undefined });
    }
    model.files ??= new Map([...this.base, ...(await model.trainer.save())]);
    return model.files;
  }

  private model(id: string): Model {
    const model = this.models.get(id);
    if (model) return model;
    throw new OperationFailed(`Model ${id} not loaded`);
  }
}

/** Adam's settings in SkyRL's FSDP and Megatron. */
export const OWN_ADAM: Omit<OptimizerConfig, "learningRate"> = {
  ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, maxGradientNorm: 1 },
};

/** Absent settings have the API's defaults. */
function configOf(params: AdamParams, { adam, rate, clips }: TinkerRules): OptimizerConfig {
  const { beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay = 0, grad_clip_norm: clip = 0 } = params;
  const learningRate = rate ? params.learning_rate : 1e-3;
  if (adam === "own") return { ...OWN_ADAM, learningRate };
  const maxGradientNorm = clips && clip > 0 ? clip : null;
  const config = { learningRate, beta1, beta2, epsilon: eps, weightDecay: weight_decay, maxGradientNorm };
  return adam === "own-betas" ? { ...config, beta1: OWN_ADAM.beta1, beta2: OWN_ADAM.beta2 } : config;
}

/** The whole sequence of a datum: its inputs and its last target. */
function tokensOf({ model_input, loss_fn_inputs }: Datum): number[] {
  const inputs = model_input.chunks.flatMap(({ tokens }) => tokens);
  return [...inputs, loss_fn_inputs["target_tokens"]?.data.at(-1) ?? 0];
}

/** dLoss/dlogProb of each target. */
function derivatives(
  loss: PassInput["loss_fn"],
  { loss_fn_inputs: inputs }: Datum,
  logProbs: readonly number[],
  reduction: TinkerRules["reduction"],
): number[] {
  const weights = inputs["weights"]?.data ?? logProbs.map(() => 1);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const divisor = reduction === "mean" ? Math.max(total, 1e-9) : 1;
  return logProbs.map((logProb, t) => {
    const weight = (weights[t] ?? 0) / divisor;
    if (loss === "cross_entropy") return -weight;
    const ratio = Math.exp(logProb - (inputs["logprobs"]?.data[t] ?? 0));
    return -weight * ratio * (inputs["advantages"]?.data[t] ?? 0);
  });
}
