/** @file For `--set runner=native`, which runs the team in mgrpo's own loop: the tools of atlas. */
import type { Tool } from "../../core/ports.ts";
import { tools as atlas } from "../../recipes/atlas/tools.ts";

export const tools: ReadonlyMap<string, Tool> = atlas;
