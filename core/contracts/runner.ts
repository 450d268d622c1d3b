/** @file Who runs a team's rollouts, this program or an app, and what names the random draws of both. */
import * as z from "zod";
import type { AgentConfig } from "./agent-config.ts";
import type { AlgorithmConfig } from "./algorithm-config.ts";
import { algorithmOf } from "./algorithm-overrides.ts";
import type { ConfigFault } from "./config-fault.ts";
import type { EvaluationSuite } from "./evaluation-suite.ts";
import { isEndpointPolicy } from "./language-model.ts";

/** `native`: this program. `recipe`: the app in the recipe. An object: an app at a URL. */
export const RunnerConfig = z.union([
  z.enum(["native", "recipe"]),
  z.strictObject({
    url: z
      .url({ protocol: /^https?$/ })
      .describe("URL of the app. Each attempt at a rollout is one signed POST to it."),
    secretVariable: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]*$/, "must be the name of an environment variable")
      .default("MGRPO_RUNNER_SECRET")
      .describe(
        "The workers' environment variable that holds the secret with which calls are signed. The app has the same secret.",
      ),
  }),
]);
export type RunnerConfig = z.infer<typeof RunnerConfig>;

/** What names the random draws of a turn: its place in the rollout, or the tokens before it. */
export const Draws = z
  .enum(["place", "tokens"])
  .default("place")
  .describe(
    "What names a turn's random stream. place: its call and turn, or the app's request. tokens: the tokens before it, so that an app and this program's loop sample identically (docs/your-own-agents.md).",
  );
export type Draws = z.infer<typeof Draws>;

interface RolloutSettings {
  readonly runner: RunnerConfig;
  readonly draws: Draws;
  readonly main: string;
  readonly algorithm: AlgorithmConfig;
  readonly agents: Readonly<Record<string, AgentConfig>>;
  readonly evaluation: { readonly suites: readonly EvaluationSuite[] };
}

export const runnerFaults = (config: RolloutSettings): ConfigFault[] => [...appFaults(config), ...drawFaults(config)];

/** Settings that an app makes meaningless: it has its own tools and prompts, and calls models behind APIs itself. */
function appFaults({ runner, main, agents, algorithm, evaluation }: RolloutSettings): ConfigFault[] {
  if (runner === "native") return [];
  const faults = turnWeightFaults({ algorithm, agents });
  const refuse = (name: string, setting: string, remedy: string) =>
    faults.push([["agents", name, setting], `an app runs the rollouts (runner), and would ignore it: ${remedy}`]);
  for (const [name, { policy, tools, system, delegates }] of Object.entries(agents)) {
    if (isEndpointPolicy(policy)) refuse(name, "policy", "let the app call that model itself, and remove the agent");
    if (tools.length > 0) refuse(name, "tools", "set it to [], and give the app the tools");
    if (name !== main && delegates.length > 0) {
      refuse(
        name,
        "delegates",
        `the app decides who calls whom; set it to [], and list its agents in agents.${main}.delegates`,
      );
    }
    if (system !== "") refuse(name, "system", 'set it to "", and let the app send its own');
  }
  for (const [i, { closedBook, name }] of evaluation.suites.entries()) {
    if (!closedBook) continue;
    const message = `suite '${name}': the tools are the app's, and cannot be switched off here: leave the suite out`;
    faults.push([["evaluation", "suites", i, "closedBook"], message]);
  }
  return faults;
}

/** One fault for each setting of `turnWeight` above 0: agents without a value of their own share that of the run. */
function turnWeightFaults({ algorithm, agents }: Pick<RolloutSettings, "algorithm" | "agents">): ConfigFault[] {
  const message = "an app runs the rollouts (runner), and its branches have no turns to reward: set it to 0";
  const withTurns = Object.keys(agents).filter((name) => algorithmOf({ algorithm, agents }, name).turnWeight > 0);
  const own = withTurns.filter((name) => agents[name]?.algorithm?.turnWeight !== undefined);
  const faults = own.map((name): ConfigFault => [["agents", name, "algorithm", "turnWeight"], message]);
  return own.length < withTurns.length ? [[["algorithm", "turnWeight"], message], ...faults] : faults;
}

/** An API behind an agent has no random stream to name. */
function drawFaults({ draws, agents }: RolloutSettings): ConfigFault[] {
  if (draws === "place") return [];
  const behindApi = Object.keys(agents).find((name) => isEndpointPolicy(agents[name]?.policy ?? ""));
  if (behindApi === undefined) return [];
  const message = `agent '${behindApi}' is behind an API, which has no random stream to name: set draws to "place"`;
  return [[["draws"], message]];
}
