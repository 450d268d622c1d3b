/** @file The settings of a trial's runs. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { appConfig, relayConfig } from "../fixtures/relay/start.ts";
import { LIMITS } from "./limits.ts";
import { APP_RUN } from "./schedule.ts";
import { PRICES } from "./world.ts";

export interface TrialParts {
  /** The folder of the recipe. */
  readonly recipe: string;
  readonly steps: number;
  /** The port of the judge. */
  readonly judge: number;
  /** The port of the app. */
  readonly app: number;
}

/** Apart from ports and the recipe's folder, the same in every trial with the same number of steps: the trials' records can be compared. */
export function configOf(run: string, { recipe, steps, judge, app }: TrialParts): RunConfig {
  return (run === APP_RUN ? appConfig : relayConfig)({
    run,
    recipe,
    seed: run === "a" ? 7 : 8,
    steps,
    // One of the two runs trains asynchronously, on rollouts of an app.
    ...(run === APP_RUN && {
      staleness: 1,
      algorithm: { tisCap: 2 },
      runner: { url: `http://127.0.0.1:${app}/attempts` },
    }),
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
    // Enough attempts that no rollout is lost.
    limits: {
      invocationSeconds: LIMITS.invocation,
      rolloutSeconds: LIMITS.rollout,
      verdictSeconds: 20,
      toolSeconds: 15,
      attempts: 50,
    },
    budget: { usd: 1000, usdPerWorkerHour: { "*": 0 } },
  });
}
