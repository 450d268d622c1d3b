/**
 * @file What a run may spend, and the checks of its prices. With a limit in dollars, workers, agents behind APIs and the judge must have a price.
 * Prices of workers are refused without such a limit, and for agents that do not exist.
 */
import * as z from "zod";
import type { ConfigFault } from "./config-fault.ts";
import { isEndpointPolicy } from "./language-model.ts";
import { AgentName } from "./names.ts";

/** A hard limit: tick halts a run that reaches it. What counts, and what does not: core/training/run-budget.ts. */
export const BudgetConfig = z.strictObject({
  hours: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Hours since the start of the run, idle hours included, after which it is halted. Null: no limit."),
  usd: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe(
      "Dollars after which the run is halted: worker hours at their price, tools, judges and agents behind APIs. Null: no limit.",
    ),
  usdPerWorkerHour: z
    .record(z.union([AgentName, z.literal("*")]), z.number().nonnegative())
    .default({})
    .describe("Dollars per hour of one worker, by agent. '*': all other workers, evaluation workers included."),
});
export type BudgetConfig = z.infer<typeof BudgetConfig>;

interface BudgetedConfig {
  readonly budget: BudgetConfig;
  readonly agents: Readonly<
    Record<
      string,
      { readonly policy: string; readonly endpoint?: { readonly usdPerMillionTokens: unknown } | undefined }
    >
  >;
  readonly judge?: { readonly usdPerMillionTokens: unknown };
  readonly evaluation: { readonly suites: readonly unknown[] };
}

/** How to write a missing price, for messages. */
export const PRICE_ADVICE =
  '{"input": 0.25, "output": 2} for instance, or {"input": 0, "output": 0} for a server of your own';

/** Paths of missing token prices of agents behind APIs and of the judge. Without a price their cost cannot be counted. */
export function unpriced({ agents, judge }: Pick<BudgetedConfig, "agents" | "judge">): (readonly string[])[] {
  const unpricedAgents = Object.entries(agents).filter(
    ([, { policy, endpoint }]) => isEndpointPolicy(policy) && !endpoint?.usdPerMillionTokens,
  );
  return [
    ...unpricedAgents.map(([name]) => ["agents", name, "endpoint", "usdPerMillionTokens"]),
    ...(judge && !judge.usdPerMillionTokens ? [["judge", "usdPerMillionTokens"]] : []),
  ];
}

const PRICES_PATH = ["budget", "usdPerWorkerHour"];

/** Settings of a budget that could not be enforced, or would limit nothing: path and message. */
export function budgetFaults(config: BudgetedConfig): ConfigFault[] {
  const { agents, evaluation, budget } = config;
  const { usd, usdPerWorkerHour: prices } = budget;
  const names = Object.keys(agents);
  const unknownAgents = Object.keys(prices).filter((name) => name !== "*" && !names.includes(name));
  const faults = unknownAgents.map(
    (name): ConfigFault => [
      [...PRICES_PATH, name],
      `there is no agent '${name}': name one of ${names.join(", ")}, '*' for all others, or remove it`,
    ],
  );
  if (usd === null) {
    if (Object.keys(prices).length === 0) return faults;
    return [...faults, [PRICES_PATH, "limits nothing without budget.usd: set budget.usd too, or remove it"]];
  }
  const priced = Object.keys(prices);
  const workers = [...names, ...(evaluation.suites.length > 0 ? ["*"] : [])];
  const missing = priced.includes("*") ? [] : workers.filter((name) => !priced.includes(name));
  const needed = `budget.usd needs a price for every worker: add ${missing.join(", ")} ('*' sets the price of all others)`;
  return [
    ...faults,
    ...(missing.length > 0 ? [[PRICES_PATH, needed] as const] : []),
    ...unpriced(config).map(
      (path): ConfigFault => [path, `budget.usd cannot count these tokens without a price: set ${PRICE_ADVICE}`],
    ),
  ];
}
