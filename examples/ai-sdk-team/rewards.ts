/** @file The rewards of atlas. */
import type { Rewards } from "../../core/ports.ts";
import { rewards as atlas } from "../../recipes/atlas/rewards.ts";

export const rewards: Rewards = atlas;
