/** @file Wires the functions to a store and to the recipes' rewards, once per process: for Lambda, the local dispatcher and tests alike. */
import * as z from "zod";
import { awsControls } from "../adapters/aws/controls.ts";
import { openAwsStore } from "../adapters/aws/store.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { parse } from "../core/contracts/parse.ts";
import type { Store } from "../core/ports.ts";
import { openRewards } from "../recipes/rewards.ts";
import { type FunctionOptions, openContext } from "./context.ts";
import { type Functions, openFunctions } from "./functions.ts";

/** The functions on a store. */
export function composeFunctions(store: Store, options: Partial<FunctionOptions> = {}): Functions {
  const rewardsOf = (config: RunConfig) => openRewards(config, process.env);
  return openFunctions(openContext(store, { rewardsOf, controlsOf: awsControls(), ...options }));
}

const Environment = z.object({ MGRPO_TABLE: z.string().min(1), MGRPO_BUCKET: z.string().min(1) });

/** The functions on the store that the environment names. */
export function composeFromEnvironment(environment: Record<string, string | undefined>): Functions {
  const { MGRPO_TABLE, MGRPO_BUCKET } = parse(Environment, environment, "environment", "config-invalid");
  return composeFunctions(openAwsStore({ table: MGRPO_TABLE, bucket: MGRPO_BUCKET }));
}
