/** @file The scores of atlas-two-subs: those of atlas. */
import { rewards as atlas } from "../atlas/rewards.ts";

export const rewards = atlas;
