/** @file The tools of atlas-two-subs, which are atlas's. */
import { tools as atlas } from "../atlas/tools.ts";

export const tools = atlas;
