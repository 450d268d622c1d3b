/** @file The settings of one agent: its model, tools, limits, optimizer and engine. */
import * as z from "zod";
import { AlgorithmOverrides } from "./algorithm-overrides.ts";
import type { ConfigFault } from "./config-fault.ts";
import { EngineConfig } from "./engine.ts";
import { AgentEndpointSettings } from "./language-model.ts";
import { LoraConfig } from "./lora.ts";
import { AgentName } from "./names.ts";
import { Schedule, WarmupRatio } from "./schedule.ts";
import { ServerOptimizer } from "./server-optimizer.ts";
import { withInherited } from "./shared-policy.ts";

/** One step of AdamW (Loshchilov and Hutter, arXiv 1711.05101), on a gradient first clipped by its global norm. */
export const OptimizerConfig = z.strictObject({
  learningRate: z.number().positive().default(5e-4).describe("AdamW's learning rate."),
  beta1: z.number().min(0).lt(1).default(0.9).describe("AdamW's decay rate of the first moment."),
  beta2: z.number().min(0).lt(1).default(0.99).describe("AdamW's decay rate of the second moment."),
  epsilon: z.number().positive().default(1e-8).describe("AdamW's epsilon."),
  weightDecay: z.number().min(0).default(0).describe("AdamW's decoupled weight decay."),
  decayed: z
    .enum(["all", "matrices"])
    .exactOptional()
    .describe("Parameters with weight decay: all, or matrices (norms and biases are excluded). Absent: all."),
  maxGradientNorm: z
    .number()
    .positive()
    .nullable()
    .default(1)
    .describe("Global norm to which the gradient is clipped. Null: no clipping."),
});
export type OptimizerConfig = z.infer<typeof OptimizerConfig>;

/** An agent's optimizer over a whole run. */
export const ScheduledOptimizer = OptimizerConfig.extend({
  kind: z.literal("adamw").exactOptional().describe("adamw: AdamW with these settings."),
  schedule: Schedule.default("constant").describe(
    "Learning-rate schedule. linear, cosine: the rate falls from learningRate to 0 over the run, after the warm-up.",
  ),
  warmupRatio: WarmupRatio,
});
export type ScheduledOptimizer = z.infer<typeof ScheduledOptimizer>;

/** How an agent's model learns which tools it has. */
export const ToolPrompt = z.enum(["auto", "template", "system", "user", "none"]);
export type ToolPrompt = z.infer<typeof ToolPrompt>;

/** Whose optimizer trains an agent: AdamW with our settings, or the one that its Tinker server provides. */
const AgentOptimizer: z.ZodType<
  ScheduledOptimizer | ServerOptimizer,
  "server" | z.input<typeof ScheduledOptimizer> | z.input<typeof ServerOptimizer>
> = z.preprocess(
  (value) => (value === "server" ? { kind: "server" } : value),
  z.discriminatedUnion("kind", [ScheduledOptimizer, ServerOptimizer]),
);
export type AgentOptimizer = z.infer<typeof AgentOptimizer>;

/** The optimizer of one step: its learning rate is that of the schedule. */
export type StepOptimizer = OptimizerConfig | Pick<ServerOptimizer, "kind" | "learningRate">;

const AgentLimits = z.strictObject({
  turns: z.int().positive().default(8).describe("Turns of one conversation."),
  turnTokens: z.int().positive().default(64).describe("New tokens of one turn."),
  contextTokens: z
    .int()
    .positive()
    .default(512)
    .describe("Tokens of a whole conversation, prompt and tool responses included."),
  calls: z.int().positive().default(4).describe("Tool calls in one turn. A turn with more is malformed."),
  responseCharacters: z
    .int()
    .positive()
    .default(4000)
    .describe(
      "Characters of one tool response that reach the model. A longer one is truncated, with a mark at its end.",
    ),
  responseTokens: z
    .int()
    .positive()
    .exactOptional()
    .describe("Tokens of one tool response that reach the model. Absent: only responseCharacters limits it."),
});

/**
 * The settings of one agent, `agents.<name>` of a run: lengths in tokens of its own tokenizer, unless a name says characters. It checks each
 * value; whether they are compatible (policy, engine, optimizer, endpoint) is checked by `RunConfig`.
 */
export const AgentConfig = z.strictObject({
  model: z
    .string()
    .min(1)
    .describe(
      "hf:<owner>/<name>[@<revision>] on the Hugging Face Hub, or the folder or s3:// prefix of a checkpoint or PEFT adapter. Behind an API: the model's name on the server.",
    ),
  policy: z
    .string()
    .default("compiled")
    .describe(
      "The model's backend: compiled, eager, eager-gpu, tinker:<url>[#<base model>], recipe:<name>, openai[:<base url>], bedrock:<region>, or of:<agent> for that agent's weights (docs/shared-policies.md).",
    ),
  share: z
    .number()
    .positive()
    .exactOptional()
    .describe("Its weight in the loss of a shared policy, relative to those of the other agents. Absent: 1."),
  endpoint: AgentEndpointSettings.optional().describe("Settings of requests, for an agent behind an API."),
  trained: z.boolean().default(true).describe("Whether the agent is trained. false: frozen at version 0."),
  tools: z.array(z.string()).default([]).describe("Names of the recipe's tools that it may call."),
  delegates: z
    .array(AgentName)
    .default([])
    .describe(
      "Agents that it may delegate to. Sub-agents may delegate too. Each has exactly one caller, and is at most 4 levels below the main agent.",
    ),
  system: z.string().default("").describe("Text of the system message. Empty: none."),
  thinking: z
    .boolean()
    .exactOptional()
    .describe(
      "Whether it reasons before it answers (enable_thinking of the chat template). Absent: the template's default.",
    ),
  toolPrompt: ToolPrompt.default("auto").describe(
    "Where its tools are described: template, system message, first user message, or none. auto: none if the template declares them learned, template if it shows them and <tool_call> JSON, else system.",
  ),
  limits: AgentLimits.prefault({}).describe("Limits of its conversations."),
  lora: LoraConfig.nullable()
    .default(null)
    .describe(
      "Trains a LoRA adapter instead of the whole model. {}: the default adapter. Null: all weights are trained.",
    ),
  optimizer: AgentOptimizer.prefault({}).describe(
    'AdamW and its schedule. "server" is short for {"kind": "server"}, the optimizer of a Tinker server.',
  ),
  temperature: z
    .number()
    .positive()
    .max(10)
    .exactOptional()
    .describe(
      "Temperature at which its training rollouts are sampled and its log-probs computed. Absent: that of the run.",
    ),
  algorithm: AlgorithmOverrides.exactOptional().describe("Settings of the algorithm that differ for this agent."),
  workers: z
    .int()
    .positive()
    .default(1)
    .describe(
      "Worker processes that serve it, each on its own instance in a deployment. More workers run more rollouts in parallel.",
    ),
  engine: EngineConfig.prefault({}).describe("How its policy is computed."),
});
export type AgentConfig = z.infer<typeof AgentConfig>;

type AgentInput = z.input<typeof AgentConfig>;
/** An agent that shares a policy takes its model from the policy's owner. */
type SharedPolicyInput = Omit<AgentInput, "model" | "policy"> & { model?: string; policy: `of:${string}` };

/** A team, by agent name. */
export const Agents: z.ZodType<
  Record<string, AgentConfig>,
  Record<string, AgentInput | SharedPolicyInput>
> = z.preprocess((agents) => withInherited(agents), z.record(AgentName, AgentConfig));

/** Exclusions from weight decay that would have no effect: path and message. */
export function decayFaults(agents: Readonly<Record<string, AgentConfig>>): ConfigFault[] {
  return Object.entries(agents).flatMap(([name, { policy, lora, optimizer }]): ConfigFault[] => {
    if (optimizer.kind === "server") return [];
    if (optimizer.decayed !== "matrices") return [];
    const path = ["agents", name, "optimizer", "decayed"];
    if (policy.startsWith("tinker:"))
      return [[path, "a Tinker server has no setting for which weights decay: remove decayed"]];
    if (lora !== null) return [[path, "an adapter has neither norms nor biases: remove decayed"]];
    if (optimizer.weightDecay === 0)
      return [[path, "has no effect while weightDecay is 0: remove decayed, or set weightDecay"]];
    return [];
  });
}
