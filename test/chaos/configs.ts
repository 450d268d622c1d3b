/** @file The settings of a trial's runs. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { appConfig, relayConfig } from "../fixtures/relay/start.ts";
import { LIMITS } from "./limits.ts";
import { priced } from "./priced-model.ts";
import { APP_RUN } from "./schedule.ts";
import { PRICES } from "./world.ts";

/** More than any run of a trial spends. */
export const MAX_USD = 1e9;

export interface TrialParts {
  /** The folder of the recipe. */
  readonly recipe: string;
  readonly steps: number;
  /** The port of the judge. */
  readonly judge: number;
  /** The port of the app. */
  readonly app: number;
  /** The port of the API of run `a`'s searcher. Absent: it is trained. */
  readonly api?: number | undefined;
  /** Of run `a`. */
  readonly staleness: number;
}

/**
 * Apart from ports and the recipe's folder, the same in every trial with the same number of steps, staleness and kind of searcher: the trials' records
 * can be compared.
 */
export function configOf(run: string, { recipe, steps, judge, app, api, staleness }: TrialParts): RunConfig {
  return (run === APP_RUN ? appConfig : relayConfig)({
    run,
    recipe,
    seed: run === "a" ? 7 : 8,
    steps,
    ...(run !== APP_RUN && api !== undefined && { agents: withPricedSearcher(api) }),
    ...((run === APP_RUN || staleness > 0) && { algorithm: { tisCap: 2 } }),
    // One of the two runs always trains asynchronously, on rollouts of an app.
    ...(run === APP_RUN ? { staleness: 1, runner: { url: `http://127.0.0.1:${app}/attempts` } } : { staleness }),
    judge: {
      model: {
        provider: "openai",
        baseUrl: `http://127.0.0.1:${judge}/v1`,
        model: "judge",
        timeoutSeconds: LIMITS.judge,
      },
      maxTokens: 64,
      usdPerMillionTokens: PRICES,
      criteria: { correct: "Compare.", expert: "Look at the work." },
    },
    // Every version is kept, so that the tokens sampled from it can be checked at the end.
    retention: { last: steps + 2 },
    evaluation: { every: 2, suites: [{ name: "all", questions: 4 }] },
    liveness: { heartbeatSeconds: 0.2, leaseSeconds: LIMITS.lease, pollSeconds: 0.05 },
    // Enough that no rollout is lost by failed attempts; three deaths of its worker, while it runs alone, still lose it.
    limits: {
      invocationSeconds: LIMITS.invocation,
      rolloutSeconds: LIMITS.rollout,
      verdictSeconds: 20,
      toolSeconds: 15,
      attempts: 50,
    },
    budget: { usd: MAX_USD, usdPerWorkerHour: { "*": 0 } },
  });
}

/** The agents of a run whose searcher is behind the API at this port. */
export function withPricedSearcher(api: number, timeoutSeconds?: number): RunConfig["agents"] {
  const { agents } = relayConfig();
  const { searcher } = agents;
  if (!searcher) throw new Error("the relay has no searcher");
  return { ...agents, searcher: priced(searcher, api, timeoutSeconds) };
}
