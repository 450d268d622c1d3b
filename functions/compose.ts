/** @file Wires the functions to a store and to the recipes' rewards: for Lambda, the command line and tests alike. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import { awsControls } from "../adapters/aws/controls.ts";
import { openAwsStore } from "../adapters/aws/store.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { parse } from "../core/contracts/parse.ts";
import type { Store } from "../core/ports.ts";
import { isolatedRewards } from "../recipes/isolated-rewards.ts";
import { openRewards } from "../recipes/rewards.ts";
import { type FunctionOptions, openContext } from "./context.ts";
import { type Functions, openFunctions } from "./functions.ts";

/** The functions on a store. */
export function composeFunctions(store: Store, options: Partial<FunctionOptions> = {}): Functions {
  const rewardsOf = (config: RunConfig) => openRewards(config, process.env);
  return openFunctions(openContext(store, { rewardsOf, controlsOf: awsControls(), ...options }));
}

const FunctionVariables = z.object({
  MGRPO_TABLE: z.string().min(1),
  MGRPO_BUCKET: z.string().min(1),
  /** The folder of the user's compiled project (build-project.mjs). */
  MGRPO_PROJECT: z.string().min(1).optional(),
});

/** The functions on the store that the environment names. Rewards of the user's project run in a thread of their own. */
export function composeFromEnvironment(environment: Record<string, string | undefined>): Functions {
  const names = parse(FunctionVariables, environment, "environment", "config-invalid");
  const store = openAwsStore({ table: names.MGRPO_TABLE, bucket: names.MGRPO_BUCKET });
  const { MGRPO_PROJECT: project } = names;
  if (project === undefined) return composeFunctions(store);
  const thread = pathToFileURL(join(project, "rewards-thread.mjs"));
  return composeFunctions(store, { rewardsOf: isolatedRewards(environment, thread) });
}
