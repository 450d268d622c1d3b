/**
 * @file The optimizer of a Tinker server that keeps Adam's settings to itself, such as SkyRL's FSDP and Megatron backends. Only the learning rate
 * and its schedule are ours. The probe refuses a server that ignores the learning rate: one whose weights move at a rate of 0.
 */
import * as z from "zod";
import type { ConfigFault } from "./config-fault.ts";
import { Schedule, WarmupRatio } from "./schedule.ts";

/**
 * `agents.<name>.optimizer` of an agent whose Tinker server has its own optimizer; in a config, `"server"` is short for `{"kind": "server"}`. Betas,
 * epsilon, weight decay and clipping are unknown keys here: they are set where the server is started.
 */
export const ServerOptimizer = z.strictObject({
  kind: z
    .literal("server")
    .describe(
      "server: the Tinker server's own optimizer, which takes only the learning rate and its schedule (docs/tinker.md).",
    ),
  learningRate: z
    .number()
    .positive()
    .default(4e-5)
    .describe("For a server's optimizer, the default is lower: it trains adapters of LLMs."),
  schedule: Schedule.default("linear").describe("For a server's optimizer, the default is linear."),
  warmupRatio: WarmupRatio,
});
export type ServerOptimizer = z.infer<typeof ServerOptimizer>;

/** What the probe measured of a server's optimizer (engine/tinker/probe.ts). The values of the server's own settings cannot be measured. */
export const OptimizerProbe = z.strictObject({
  /** The server's base URL. */
  server: z.string(),
  /** Whether the epsilon of a request is used. */
  followsEpsilon: z.boolean(),
  /** Whether the beta1 of a request is used: with 0, a step must not depend on those before it. */
  followsBeta1: z.boolean(),
  /** Mean rise of a token's log-prob, in nats, in one step at `learningRate` on the probe's own sequence. */
  rise: z.number(),
  learningRate: z.number(),
});
export type OptimizerProbe = z.infer<typeof OptimizerProbe>;

const LIST = new Intl.ListFormat("en");

/** One line for the user. */
export function describeOptimizer({
  server,
  followsEpsilon,
  followsBeta1,
  rise,
  learningRate,
}: OptimizerProbe): string {
  const settings = { epsilon: followsEpsilon, beta1: followsBeta1 };
  const names = (follows: boolean) => Object.entries(settings).flatMap(([name, is]) => (is === follows ? [name] : []));
  const own = names(false).length > 0 ? `, not ${LIST.format(names(false))}` : "";
  return `optimizer of ${server}: follows ${LIST.format(["the learning rate", ...names(true)])}${own}; a step at ${learningRate} raised log-probs by ${rise.toPrecision(3)} nats per token`;
}

interface AgentWithOptimizer {
  readonly policy: string;
  readonly optimizer: { readonly kind?: string };
}

/** One fault for each agent that asks for a server's optimizer but is not on a Tinker server. */
export function serverOptimizerFaults(agents: Readonly<Record<string, AgentWithOptimizer>>): ConfigFault[] {
  return Object.entries(agents).flatMap(([name, { policy, optimizer }]): ConfigFault[] => {
    if (optimizer.kind !== "server" || policy.startsWith("tinker:")) return [];
    return [
      [["agents", name, "optimizer"], `"server" needs policy tinker:<url>, not '${policy}': write AdamW's settings`],
    ];
  });
}
