/** @file A team in a file of the user's own: a run's config with its recipe and agents; the rest may be left out. */
import { existsSync, readFileSync } from "node:fs";
import * as z from "zod";
import type { RunConfigInput } from "../core/contracts/config.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { valueAt } from "../core/training/resolve-config.ts";

/** What of it is needed before its settings are checked: enough to find the recipe. */
const TeamFile = z.looseObject({ recipe: z.string(), agents: z.record(z.string(), z.looseObject({})) });

export const isTeamFile = (target: string): boolean => target.endsWith(".json");

/** `option` names it in messages. */
export function readTeamFile(file: string, option: string): RunConfigInput {
  const name = [option, file].filter(Boolean).join(" ");
  if (!existsSync(file)) throw new MgrpoError("not-found", `${name}: no such file`);
  return parseJson(TeamFile, readFileSync(file), name, "config-invalid") as unknown as RunConfigInput;
}

/** Settings of a team of which nobody is to be trained, so that whoever can speak may be in it. */
export const untrained = ({ agents }: Pick<RunConfigInput, "agents">): string[] =>
  Object.keys(agents).map((agent) => `agents.${agent}.trained=false`);

/** The config of a file or of a run as its recipe's advice: a judge goes by the recipe's criteria unless it brings its own. */
export function advisedBy(recipe: Recipe, stored: RunConfigInput): Pick<Recipe, "name" | "config"> {
  return {
    name: recipe.name,
    config(arm, chosen) {
      const { judge: advice } = recipe.config(arm, (path) => chosen(path) ?? valueAt(stored, path));
      const judge = stored.judge ? { ...advice, ...stored.judge } : advice;
      return { ...stored, ...(judge && { judge }) };
    },
  };
}
