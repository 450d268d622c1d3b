/** @file The scores of atlas-two-subs: those of atlas. */
export { rewards } from "../atlas/rewards.ts";
