/** @file The rewards of a recipe, all of it that functions need: their bundles carry no world, no search index and no base models. */
import type { Rewards } from "../core/ports.ts";
import { openPart } from "./modules.ts";

const KNOWN = { atlas: () => import("./atlas/rewards.ts") };

export const openRewards = async (nameOrPath: string): Promise<Rewards> =>
  (await openPart(KNOWN, nameOrPath, "rewards")).rewards;
