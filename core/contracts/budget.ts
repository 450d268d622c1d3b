/** @file What a run may spend, and who must have a price, so that a limit in dollars means what it says. */
import * as z from "zod";
import { isEndpointPolicy } from "./language-model.ts";
import { AgentName } from "./names.ts";

/** The hard stop: tick halts a run that has spent this. What counts, and what does not: core/training/budget.ts. */
export const BudgetConfig = z.strictObject({
  /** Hours by the store's clock since the run began; those in which it stood still count too. Null: no limit. */
  hours: z.number().positive().nullable().default(null),
  /** Dollars: worker hours at their price, and what tools, judges and agents behind APIs were paid. Null: no limit. */
  usd: z.number().positive().nullable().default(null),
  /** Agent -> price of an hour of one of its workers; `*`: of any other worker, those that evaluate among them. */
  usdPerWorkerHour: z.record(z.union([AgentName, z.literal("*")]), z.number().nonnegative()).default({}),
});
export type BudgetConfig = z.infer<typeof BudgetConfig>;

interface Spender {
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

/** What to write where a price is missing. */
export const PRICE = '{"input": 0.25, "output": 2} for instance, or {"input": 0, "output": 0} for a server of your own';

/** Paths of the prices of tokens that agents behind APIs and the judge lack: what they are paid is in no sum. */
export function unpriced({ agents, judge }: Pick<Spender, "agents" | "judge">): (readonly string[])[] {
  const unpaid = Object.entries(agents).filter(
    ([, { policy, endpoint }]) => isEndpointPolicy(policy) && !endpoint?.usdPerMillionTokens,
  );
  return [
    ...unpaid.map(([name]) => ["agents", name, "endpoint", "usdPerMillionTokens"]),
    ...(judge && !judge.usdPerMillionTokens ? [["judge", "usdPerMillionTokens"]] : []),
  ];
}

type Fault = readonly [path: readonly string[], message: string];

/** What of a budget could not be kept, or would be ignored: path and message. */
export function budgetFaults(config: Spender): Fault[] {
  const { agents, evaluation, budget } = config;
  const { usd, usdPerWorkerHour: prices } = budget;
  const names = Object.keys(agents);
  const strangers = Object.keys(prices).filter((name) => name !== "*" && !names.includes(name));
  const at = ["budget", "usdPerWorkerHour"];
  const faults = strangers.map((name): Fault => [[...at, name], "no such agent in agents"]);
  if (usd === null) {
    if (Object.keys(prices).length === 0) return faults;
    return [...faults, [at, "does nothing without budget.usd: set that too, or remove it"]];
  }
  const workers = [...names, ...(evaluation.suites.length > 0 ? ["*"] : [])].filter(
    (name) => (prices[name] ?? prices["*"]) === undefined,
  );
  const needed = `budget.usd needs a price of every worker: add ${workers.join(", ")} ('*' is for all that have none)`;
  return [
    ...faults,
    ...(workers.length > 0 ? [[at, needed] as const] : []),
    ...unpriced(config).map((path): Fault => [path, `budget.usd would not count it: set ${PRICE}`] as const),
  ];
}
