/**
 * @file `mgrpo/engine`: samples from LLMs and trains them, on this machine's cores or GPU or on a Tinker server, without the rest
 * of mgrpo. Tokens go in and tokens come out; the tokenizer and the chat layout handle text. See engine/README.md and
 * examples/loop.ts.
 */

import * as z from "zod";
import { EngineConfig, engineFaults } from "../core/contracts/engine.ts";
import { parse } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, EngineOptions, PolicyEngine, Sampler, Trainer } from "../core/ports.ts";
import { longestContext } from "./checkpoint/config.ts";
import { withStoredDtype } from "./checkpoint/dtype.ts";
import { OPTIMIZER_FILE_NAMES } from "./checkpoint/shards.ts";
import { INDEX_FILE, MODEL_FILE, TENSOR_FILE_NAMES } from "./checkpoint/tensors.ts";
import { compiledEngine } from "./compiled/engine.ts";
import { eagerEngine, eagerGpuEngine } from "./eager/engine.ts";
import { tinkerEngine } from "./tinker/engine.ts";
import { TINKER } from "./tinker/policy.ts";

export type {
  CheckpointFiles,
  EngineOptions,
  ForwardBackward,
  Loss,
  PolicyEngine,
  Sample,
  SampleRequest,
  Sampler,
  Tokenizer,
  Trainer,
  TrainingSequence,
} from "../core/ports.ts";
export { readCheckpoint, writeCheckpoint } from "./checkpoint/folder.ts";
export { withLora } from "./checkpoint/lora.ts";
export { type ChatLayout, openChatLayout } from "./tokenizer/chat-layout.ts";
export { openTokenizer } from "./tokenizer/tokenizer.ts";

const RECIPE = "recipe:";

/** Options of `openSampler` and `openTrainer`; each has a default. */
export interface OpenOptions extends Partial<EngineOptions> {
  /** `compiled` (default), `eager`, `eager-gpu` or `tinker:<url>`. */
  readonly policy?: string;
}

/**
 * Opens a sampler on a checkpoint. Defaults: one thread, 32 KV-cache slots, the model's own context (at most 4096 tokens).
 * Close it when done. It keeps the weights of `files`, so after a training step open another on `updated(files, await trainer.save())`.
 *
 * Rejects with MgrpoError `checkpoint-damaged` or `engine-unsupported`, with the reason. Rejects with `config-invalid` for an option that is
 * unknown, that cannot work (an unknown policy, a context that is too long for the model), or that the policy or the provider would ignore, as in
 * a run's config (`engineFaults`). With a Tinker server, also rejects with `endpoint-unavailable` or `endpoint-refused`; with the compiled engine,
 * with `deadline` beyond `limits`, or with `worker-unavailable` if its thread ends.
 */
export async function openSampler(files: CheckpointFiles, options: OpenOptions = {}): Promise<Sampler> {
  return openEngine(options.policy ?? "compiled").openSampler(files, engineOptions(files, options));
}

/**
 * Opens a trainer on a checkpoint. It trains all weights, or the adapter alone if the checkpoint has one (`withLora`). Defaults as for
 * `openSampler`, and micro-batches of 4096 tokens. Rejects as `openSampler` does.
 */
export async function openTrainer(files: CheckpointFiles, options: OpenOptions = {}): Promise<Trainer> {
  return openEngine(options.policy ?? "compiled").openTrainer(files, engineOptions(files, options));
}

/**
 * The checkpoint with its trained weights and optimizer state replaced by what a trainer saved: none of their old files stays,
 * whatever the number of shards. Whole models are saved as float32; if config.json names a type, it becomes float32.
 */
export function updated(files: CheckpointFiles, saved: ReadonlyMap<string, Uint8Array>): CheckpointFiles {
  const isWholeModel = saved.has(MODEL_FILE) || saved.has(INDEX_FILE);
  const replaced = isWholeModel ? TENSOR_FILE_NAMES : OPTIMIZER_FILE_NAMES;
  const all = new Map([...[...files].filter(([name]) => !replaced.test(name)), ...saved]);
  return isWholeModel ? withStoredDtype(all) : all;
}

/** What an engine reports while it works. */
export interface EngineEvents {
  /** Called with the first failure of each outage of a server, while its calls are retried. */
  readonly onOutage?: (failure: string) => void;
}

/**
 * The engine that a policy names: `compiled`, `eager`, `eager-gpu`, `tinker:<url>`, or `recipe:<name>` from `recipePolicies`.
 * @throws MgrpoError `config-invalid` for any other name.
 */
export function openEngine(
  policy: string,
  recipePolicies: ReadonlyMap<string, PolicyEngine> = new Map(),
  { onOutage }: EngineEvents = {},
): PolicyEngine {
  if (policy === "compiled") return compiledEngine;
  if (policy === "eager") return eagerEngine;
  if (policy === "eager-gpu") return eagerGpuEngine;
  if (policy.startsWith(TINKER))
    return tinkerEngine(policy, { apiKey: process.env["TINKER_API_KEY"], ...(onOutage && { onOutage }) });
  const recipeEngine = policy.startsWith(RECIPE) ? recipePolicies.get(policy.slice(RECIPE.length)) : undefined;
  if (recipeEngine) return recipeEngine;
  const recipeNames = [...recipePolicies.keys()].map((name) => RECIPE + name);
  const names = ["compiled", "eager", "eager-gpu", "tinker:<url>", ...recipeNames].join(", ");
  throw new MgrpoError("config-invalid", `no policy is called '${policy}': write one of ${names}`);
}

const MAXIMUM_DEFAULT_CONTEXT = 4096;

/** With a `slots` of NaN, for instance, an engine would wait forever for a slot; an unknown option is a misspelled one. */
const Options = z.strictObject({
  ...EngineConfig.shape,
  threads: z.int().positive(),
  slots: z.int().positive(),
  contextTokens: z.int().positive(),
  microBatchTokens: z.int().positive(),
  shardBytes: z.int().positive().optional(),
  serverOptimizer: z.boolean().optional(),
  limits: z.strictObject({ turnSeconds: z.number().positive(), trainingSeconds: z.number().positive() }).optional(),
});

/** For a Tinker server, the model's longest context is not read: its architecture may be one that only the server supports. */
function engineOptions(files: CheckpointFiles, { policy = "compiled", ...given }: OpenOptions): EngineOptions {
  const longest = policy.startsWith(TINKER) ? undefined : longestContext(files);
  const contextTokens = Math.min(MAXIMUM_DEFAULT_CONTEXT, longest ?? MAXIMUM_DEFAULT_CONTEXT);
  const options = { threads: 1, slots: 32, microBatchTokens: 4096, contextTokens, ...given };
  const engine = parse(Options, options, "options", "config-invalid");
  const [ignored] = engineFaults({ opened: { policy, engine } });
  if (ignored) {
    const [path, fault] = ignored;
    throw new MgrpoError("config-invalid", `options: ${path.at(-1)}: ${fault.replaceAll("engine.", "")}`);
  }
  return options;
}
