/** @file The name of a run that the user did not name. */
import { existsSync } from "node:fs";
import type { RunConfig } from "../../core/contracts/config.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { createRunFolder, type RunFolder, runFolder } from "./run-folder.ts";

/** `<recipe>-<arm>-seed<seed>`, with the next free number appended if it is taken. */
export function freeRunName(recipe: string, arm: string, seed: number): string {
  for (let n = 1; ; n++) {
    const name = runNameOf(recipe, arm, seed, n);
    if (!existsSync(runFolder(name).path)) return name;
  }
}

/** Makes the folder of a run that the user did not name. If another process takes a name meanwhile, the next free one is used. */
export function createUnnamedRun(
  planned: RunConfig,
  freeName: () => string,
): { readonly config: RunConfig; readonly folder: RunFolder } {
  for (;;) {
    const config = { ...planned, run: freeName() };
    try {
      return { config, folder: createRunFolder(config) };
    } catch (error) {
      // The run exists. Any other failure has another code.
      if (!isMgrpoError(error, "config-invalid")) throw error;
    }
  }
}

/** Maximum length of a run's name without its number. */
const MAX_BASE_NAME = 56;

/**
 * The name of the n-th run of that recipe, arm and seed. In the recipe's part, characters that a run's name may not have are replaced by '-',
 * and those that it may not begin with are removed from the start. If the name is too long, this part is shortened.
 */
export function runNameOf(recipe: string, arm: string, seed: number, n: number): string {
  const end = `-${arm}-seed${seed}`;
  const name = recipe.replace(/[^\w.-]+/g, "-").replace(/^[._-]+/, "") || "recipe";
  const base = name.slice(0, MAX_BASE_NAME - end.length) + end;
  return n === 1 ? base : `${base}-${n}`;
}
