/**
 * @file A model behind an API where a team is expected: `openai:<base url>#<model>`. It works alone, with all the tools of the recipe's
 * single agent; with another arm, such as `mgrpo`, every agent of the recipe's team is that model.
 */
import type { Arm } from "../core/contracts/config.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";

/** Of a recipe whose agents are advised as LLMs; the shipped ones of `atlas` are much smaller. */
export const ENDPOINT_RECIPE = "deep-research";
export const ENDPOINT_ARM: Arm = "single-agent";

export interface EndpointTeam {
  readonly policy: string;
  readonly model: string;
}

/** Undefined: something else is meant, such as a run. */
export function readEndpoint(target: string): EndpointTeam | undefined {
  const hash = target.indexOf("#");
  if (hash < 0 || !isEndpointPolicy(target.slice(0, hash))) return undefined;
  return { policy: target.slice(0, hash), model: target.slice(hash + 1) };
}

/** Settings that make it each of these agents. */
export function asAgents({ policy, model }: EndpointTeam, agents: readonly string[]): string[] {
  return agents.flatMap((agent) =>
    [`policy=${policy}`, `model=${model}`, "trained=false"].map((setting) => `agents.${agent}.${setting}`),
  );
}
