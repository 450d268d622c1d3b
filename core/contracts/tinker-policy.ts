/** @file Settings that do not work with an agent on a Tinker server. */
import type { ConfigFault } from "./config-fault.ts";
import { LoraConfig } from "./lora.ts";

interface TinkerTeam {
  readonly temperature: number;
  readonly agents: Readonly<
    Record<
      string,
      {
        readonly policy: string;
        readonly temperature?: number;
        readonly lora: LoraConfig | null;
        readonly engine: { readonly threads: number };
      }
    >
  >;
  readonly evaluation: { readonly suites: readonly { readonly temperature: number }[] };
}

const IGNORED = "does nothing on a Tinker server: remove it";

export function tinkerFaults({ temperature, agents, evaluation }: TinkerTeam): ConfigFault[] {
  return Object.entries(agents).flatMap(([name, { policy, temperature: own, lora, engine }]) => {
    if (!policy.startsWith("tinker:")) return [];
    const why = `agent '${name}' is on a Tinker server, which computes log-probs at temperature 1`;
    const faults: ConfigFault[] = [];
    if ((own ?? temperature) !== 1) {
      faults.push([own === undefined ? ["temperature"] : ["agents", name, "temperature"], `${why}: set it to 1`]);
    }
    for (const [i, suite] of evaluation.suites.entries()) {
      if (suite.temperature === 0 || suite.temperature === 1) continue;
      faults.push([["evaluation", "suites", i, "temperature"], `${why}: set it to 1, or to 0 (greedy)`]);
    }
    if (engine.threads !== 1) faults.push([["agents", name, "engine", "threads"], IGNORED]);
    return [...faults, ...loraFaults(name, lora)];
  });
}

/** The server accepts only the rank, and chooses the scale and target layers itself. */
function loraFaults(name: string, lora: LoraConfig | null): ConfigFault[] {
  if (lora === null) return [];
  const defaults = LoraConfig.parse({});
  const faults: ConfigFault[] = [];
  if (lora.alpha !== defaults.alpha) faults.push([["agents", name, "lora", "alpha"], IGNORED]);
  if (lora.targets.length !== defaults.targets.length) faults.push([["agents", name, "lora", "targets"], IGNORED]);
  return faults;
}
