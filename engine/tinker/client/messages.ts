/**
 * @file The wire messages of the Tinker API for training and sampling: JSON, snake_case. A sequence of N + 1 tokens is sent as N inputs
 * and N targets, the token after each input, and every vector of its loss has N entries. Responses may have more fields. Based
 * on SDK 0.25.0 and SkyRL a9564572, whose responses are recorded in test/fixtures/tinker-transcript.txt.
 */
import * as z from "zod";
import { RecordedText } from "../../../core/contracts/bounds.ts";

// ---------------------------------------------------------------- requests

/** SkyRL reads `data` only; the hosted service needs the type. */
export const TensorData = z.object({
  data: z.array(z.number()),
  dtype: z.enum(["int64", "float32"]).optional(),
  shape: z.array(z.int()).nullish(),
});
export type TensorData = z.infer<typeof TensorData>;

/** Token ids of one sequence, cut into chunks in order. */
export const ModelInput = z.object({
  chunks: z.array(z.object({ type: z.literal("encoded_text"), tokens: z.array(z.int().nonnegative()) })),
});
export type ModelInput = z.infer<typeof ModelInput>;

/** One sequence of a pass: N input tokens, and vectors of N entries, one per target. */
export const Datum = z.object({
  model_input: ModelInput,
  /** `target_tokens` always; `weights` for cross_entropy; `logprobs` and `advantages` for importance_sampling. */
  loss_fn_inputs: z.record(z.string(), TensorData),
});
export type Datum = z.infer<typeof Datum>;

/**
 * Per target: `cross_entropy` is -weights * logprob, `importance_sampling` is -exp(logprob - logprobs) * advantages. Servers sum over targets
 * and sequences, or average (engine/tinker/probe.ts).
 */
export const LossFunction = z.enum(["cross_entropy", "importance_sampling"]);
export type LossFunction = z.infer<typeof LossFunction>;

export const PassInput = z.object({ data: z.array(Datum), loss_fn: LossFunction });
export type PassInput = z.infer<typeof PassInput>;

/** Servers have defaults for absent fields. */
export const AdamParams = z.object({
  learning_rate: z.number().nonnegative(),
  beta1: z.number().min(0).lt(1).optional(),
  beta2: z.number().min(0).lt(1).optional(),
  eps: z.number().positive().optional(),
  weight_decay: z.number().nonnegative().optional(),
  /** 0: no clipping. SkyRL silently ignores this setting. */
  grad_clip_norm: z.number().nonnegative().optional(),
});
export type AdamParams = z.infer<typeof AdamParams>;

/** How to sample at most `max_tokens` tokens. Temperature 0 is greedy. Without `seed`, the server chooses one. */
export const SamplingParams = z.object({
  max_tokens: z.int().positive(),
  seed: z.int().nonnegative().optional(),
  /** Tokens that end the sample. */
  stop: z.array(z.int()).optional(),
  temperature: z.number().nonnegative(),
  /** -1: off. */
  top_k: z.int(),
  top_p: z.number(),
});
export type SamplingParams = z.infer<typeof SamplingParams>;

/** The model to sample from: a base model, or weights saved for sampling. */
export type SampledModel = { readonly base_model: string } | { readonly model_path: string };

/** The adapter of a model: its rank, and the seed of its initial weights. The server sets the scale; `createModel` requests all layers. */
export const TinkerLora = z.object({
  rank: z.int().nonnegative(),
  seed: z.int().nonnegative().nullish(),
});
export type TinkerLora = z.infer<typeof TinkerLora>;

// ---------------------------------------------------------------- responses

/** The base models that a server offers, and their context in tokens if it says so. */
export const Capabilities = z.object({
  supported_models: z.array(
    z.object({ model_name: z.string().nullish(), max_context_length: z.int().positive().nullish() }),
  ),
});
export type Capabilities = z.infer<typeof Capabilities>;

export const SessionCreated = z.object({ session_id: RecordedText, error_message: z.string().nullish() });
export const Heartbeat = z.object({ type: z.literal("session_heartbeat") });

/** Accepted work: its result is fetched by `request_id`. */
export const Submitted = z.object({ request_id: z.string() });

/** Responses of `retrieve_future` that are not the result. */
export const TryAgain = z.object({ type: z.literal("try_again"), queue_state_reason: z.string().nullish() });
export const RequestFailed = z.object({ error: z.string(), category: z.string() });

export const ModelCreated = z.object({
  /** Not the one in the response to the submission: if the result expires, the call is submitted again and creates another model. */
  model_id: RecordedText,
  /** What the server actually trains: SkyRL creates every model on its own base and ignores the one in the request. */
  base_model: z.string().nullish(),
  lora_config: TinkerLora.nullish(),
});
/** SkyRL still reports a model that was unloaded, but not one that was lost in a restart. */
export const ModelInfo = z.object({ model_id: z.string(), status: z.string().nullish() });
export const ModelUnloaded = z.object({ model_id: z.string() });

export const PassResult = z.object({
  /** One per datum, in order. */
  loss_fn_outputs: z.array(z.object({ logprobs: TensorData })),
});

/** What the server measured in a step, under names of its own: SkyRL's gradient norm before clipping is `skyrl.ai/grad_norm`. */
export const OptimizerResult = z.object({ metrics: z.record(z.string(), z.number()).nullish() });
export type OptimizerResult = z.infer<typeof OptimizerResult>;

export const TinkerPath = z.string().startsWith("tinker://");
export const Saved = z.object({ path: TinkerPath });
export const WeightsLoaded = z.object({ type: z.literal("load_weights") });

/**
 * The samples of a request; the client asks for one. `tokens` and `logprobs` have one entry per sampled token and none for the prompt;
 * `logprobs` is null if the server sends none.
 */
export const SampleResult = z.object({
  sequences: z
    .array(
      z.object({
        stop_reason: z.enum(["stop", "length"]),
        tokens: z.array(z.int().nonnegative()),
        logprobs: z.array(z.number()).nullable(),
      }),
    )
    .min(1),
});
export type SampleResult = z.infer<typeof SampleResult>;

/** A FastAPI error: a message, or a list of validation errors. */
export const Refusal = z.object({
  detail: z.union([
    z.string(),
    z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string() })),
  ]),
});
