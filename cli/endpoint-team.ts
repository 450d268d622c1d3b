/**
 * @file A model behind an API, used as a team: `<policy>#<model>`, such as `openai:<base url>#<model>` or `bedrock:<region>#<model>`. By default
 * it is the recipe's single agent, with all tools. With another arm, such as `mgrpo`, every agent of the recipe's team uses that model.
 */
import type { Arm, RunConfigInput } from "../core/contracts/config.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import type { Recipe } from "../core/recipe.ts";

/** The default recipe for such models: its settings suit LLMs, while those of `atlas` suit the tiny models that it ships. */
export const ENDPOINT_RECIPE = "deep-research";
export const ENDPOINT_ARM: Arm = "single-agent";

export interface EndpointTeam {
  readonly policy: string;
  readonly model: string;
}

/** Undefined if the target is something else, such as a run. */
export function parseEndpointTeam(target: string): EndpointTeam | undefined {
  const hash = target.indexOf("#");
  if (hash < 0 || !isEndpointPolicy(target.slice(0, hash))) return undefined;
  return { policy: target.slice(0, hash), model: target.slice(hash + 1) };
}

/** Settings that make each of these agents use that model, whose name stays text even if it is a number. */
export function endpointSettings({ policy, model }: EndpointTeam, agents: readonly string[]): string[] {
  const settings = [`policy=${policy}`, `model=${JSON.stringify(model)}`, "trained=false"];
  return agents.flatMap((agent) => settings.map((setting) => `agents.${agent}.${setting}`));
}

/** The recipe without the agents' settings that only a model on this machine can have, such as `lora`: an API does not accept them. */
export function withoutLocalSettings(recipe: Recipe): Pick<Recipe, "name" | "config"> {
  return {
    name: recipe.name,
    config(arm, chosen) {
      const { agents, ...advice } = recipe.config(arm, chosen);
      return { ...advice, agents: Object.fromEntries(Object.entries(agents).map(withoutLocal)) };
    },
  };
}

type NamedAgent = [name: string, agent: RunConfigInput["agents"][string]];

function withoutLocal([name, agent]: NamedAgent): NamedAgent {
  const { lora: _, toolPrompt: _toolPrompt, thinking: _thinking, share: _share, engine, limits, ...others } = agent;
  const { slots, microBatchTokens } = engine ?? {};
  const { responseTokens: _tokens, ...ownLimits } = limits ?? {};
  const ownEngine = { ...(slots && { slots }), ...(microBatchTokens && { microBatchTokens }) };
  return [name, { ...others, engine: ownEngine, limits: ownLimits }];
}
