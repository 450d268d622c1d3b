/** @file The rewards of atlas-two-subs, which are atlas's. */
import { rewards as atlas } from "../atlas/rewards.ts";

export const rewards = atlas;
