/** @file Policies by the name that a config gives them. */
import { MgrpoError } from "../core/errors.ts";
import type { PolicyEngine } from "../core/ports.ts";
import { compiledEngine } from "./compiled/engine.ts";
import { eagerEngine, eagerGpuEngine } from "./eager/engine.ts";
import { tinkerEngine } from "./tinker/engine.ts";
import { TINKER } from "./tinker/policy.ts";

const RECIPE = "recipe:";

/** `compiled`, `eager`, `eager-gpu`, `tinker:<url>`, or `recipe:<name>` out of the recipe's own. */
export function openEngine(
  policy: string,
  recipePolicies: ReadonlyMap<string, PolicyEngine> = new Map(),
): PolicyEngine {
  if (policy === "compiled") return compiledEngine;
  if (policy === "eager") return eagerEngine;
  if (policy === "eager-gpu") return eagerGpuEngine;
  if (policy.startsWith(TINKER)) return tinkerEngine(policy, { apiKey: process.env["TINKER_API_KEY"] });
  const own = policy.startsWith(RECIPE) ? recipePolicies.get(policy.slice(RECIPE.length)) : undefined;
  if (own) return own;
  const names = [
    "compiled",
    "eager",
    "eager-gpu",
    "tinker:<url>",
    ...[...recipePolicies.keys()].map((name) => RECIPE + name),
  ];
  throw new MgrpoError("config-invalid", `agents: no policy is called '${policy}': write one of ${names.join(", ")}`);
}
