/** @file Opens a recipe's rewards, the only part that functions need: their bundles contain no tools, search index or base models. */
import type { RunConfig } from "../core/contracts/config.ts";
import { JudgeName } from "../core/contracts/names.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Rewards } from "../core/ports.ts";
import type { RewardsModule } from "../core/recipe.ts";
import { checkedRewards, whatThrew } from "./checked-rewards.ts";
import { bundledName, fileOfPart, openPart } from "./modules.ts";

const KNOWN: Record<string, () => Promise<RewardsModule>> = {
  atlas: () => import("./atlas/rewards.ts"),
  "atlas-two-subs": () => import("./atlas-two-subs/rewards.ts"),
  "deep-research": () => import("./deep-research/rewards.ts"),
  gazetteer: () => import("./gazetteer/rewards.ts"),
  tally: () => import("./tally/rewards.ts"),
};

/** Whether the recipe is one of this repository, by name or path. */
export const isBundled = (recipe: string): boolean => bundledName(KNOWN, recipe) !== undefined;

/** The rewards of a run's recipe. `environment` holds the judges' API keys. */
export async function openRewards(
  config: RunConfig,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Rewards> {
  const { rewards } = await openPart(KNOWN, config.recipe, "rewards");
  // In a bundle there is no such file.
  const file = fileOfPart(config.recipe, "rewards") ?? `${config.recipe}/rewards.ts`;
  const opened = typeof rewards === "function" ? call(file, () => rewards({ config, environment })) : rewards;
  if (isRewards(opened)) {
    requireJudgeName(opened, file);
    return checkedRewards(opened, file);
  }
  // A promise is refused, and its rejection must not end the process.
  Promise.resolve(opened).catch(() => {});
  throw new MgrpoError(
    "recipe-invalid",
    `${file}: 'rewards' has no correct(): export an object with correct() and expert(), or a function that returns one, not a promise of one`,
  );
}

/** False for the wrong exports of a recipe that is not type-checked: a promise, null, a function that returns nothing. */
const isRewards = (opened: Partial<Rewards> | null | undefined): opened is Rewards =>
  typeof opened?.correct === "function";

/** The judge's name is part of keys, whose length the stores limit. */
function requireJudgeName({ judge }: Rewards, file: string): void {
  const { error } = JudgeName.optional().safeParse(judge);
  if (!error) return;
  const name = String(judge);
  const shown = name.length > 80 ? `${name.slice(0, 80)}…` : name;
  throw new MgrpoError("recipe-invalid", `${file}: judge is '${shown}': name it with ${error.issues[0]?.message}`);
}

/** An exception in the user's function is an error in the recipe. */
function call(file: string, open: () => Rewards): Rewards {
  try {
    return open();
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    throw new MgrpoError("recipe-invalid", `${file}: rewards() ${whatThrew(file, cause)}`, { cause });
  }
}
