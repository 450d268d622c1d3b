/** @file A low-rank adapter: rank, scale and target layers. Layers are named as in Hugging Face's models. */
import * as z from "zod";

/** Linear layers of a decoder that can have an adapter. */
export const LoraTarget = z.enum(["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]);
export type LoraTarget = z.infer<typeof LoraTarget>;

/** A low-rank adapter (Hu et al. 2021): a target computes W x + alpha / rank * B A x. Only A and B are trained. There is no dropout. */
export const LoraConfig = z.strictObject({
  rank: z.int().positive().default(16).describe("Rank of the adapter's matrices."),
  alpha: z.number().positive().default(32).describe("Scale of the adapter: its output is multiplied by alpha / rank."),
  targets: z
    .array(LoraTarget)
    .min(1)
    .refine((targets) => new Set(targets).size === targets.length, "lists a layer twice: remove one")
    .default([...LoraTarget.options])
    .describe("Linear layers that get an adapter."),
});
export type LoraConfig = z.infer<typeof LoraConfig>;

/** Policies that can train an adapter on this machine. */
export const LORA_POLICIES: readonly string[] = ["compiled", "eager", "eager-gpu"];

/** Whether an agent with this policy can set `lora`. A Tinker server always trains an adapter. */
export const supportsLora = (policy: string): boolean => LORA_POLICIES.includes(policy) || policy.startsWith("tinker:");
