/** @file The tools of atlas-two-subs: those of atlas. */
export { tools } from "../atlas/tools.ts";
