/** @file The tools of atlas-two-subs: those of atlas. */
import { tools as atlas } from "../atlas/tools.ts";

export const tools = atlas;
