/** @file Settings that do not work for an agent on a Tinker server. */

interface Team {
  readonly temperature: number;
  readonly agents: Readonly<Record<string, { readonly policy: string; readonly engine: { readonly threads: number } }>>;
  readonly evaluation: { readonly suites: readonly { readonly temperature: number }[] };
}

/** Path and message of each such setting. */
export function tinkerFaults({ temperature, agents, evaluation }: Team): (readonly [(string | number)[], string])[] {
  return Object.entries(agents).flatMap(([name, { policy, engine }]) => {
    if (!policy.startsWith("tinker:")) return [];
    const why = `agent '${name}' is on a Tinker server, which computes log-probs at temperature 1`;
    const faults: [(string | number)[], string][] = [];
    if (temperature !== 1) faults.push([["temperature"], `${why}: set it to 1`]);
    for (const [i, suite] of evaluation.suites.entries()) {
      if (suite.temperature === 0 || suite.temperature === 1) continue;
      faults.push([["evaluation", "suites", i, "temperature"], `${why}: set it to 1, or to 0 (greedy)`]);
    }
    if (engine.threads !== 1) {
      faults.push([["agents", name, "engine", "threads"], "does nothing on a Tinker server: remove it"]);
    }
    return faults;
  });
}
