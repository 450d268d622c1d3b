/**
 * @file The deployment that owns a table: its stacks record a description in the table. A deployment is found by stage
 * or by table name. Also the checks of a launch on it, and which policies and workers its fleets provide.
 */
import { existsSync, realpathSync } from "node:fs";
import { isAbsolute, normalize, relative, resolve } from "node:path";
import { openAwsStore } from "../adapters/aws/store.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { type Deployment, parseDeployment } from "../core/contracts/deployment.ts";
import { tableKeys } from "../core/contracts/keys.ts";
import { agentsOfPolicy } from "../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Table } from "../core/ports.ts";
import { chosenBy } from "../core/training/resolve-config.ts";
import { release } from "../gpu-workers/release.ts";
import { recipeFolder } from "../recipes/registry.ts";
import type { WorkerSpec } from "./local/workers.ts";

/** stacks/storage.ts names the table after the stage, so the stage's name alone is enough to find everything else. */
const tableOf = (stage: string) => `mgrpo-${stage}`;

/** Undefined if the table was not made by `sst deploy`. */
export const readDeployment = async (table: Table) => parseDeployment(await table.get(tableKeys.deployment));

/** The names of a stage's table and bucket. Throws if the stage has no deployment, or if the environment names others. */
export async function namesOfStage(stage: string): Promise<{ table: string; bucket: string }> {
  const table = tableOf(stage);
  const store = openAwsStore({ table, bucket: "" });
  try {
    const deployment = await readDeployment(store.table).catch((error: unknown) => {
      if (!isMgrpoError(error, "not-found")) throw error;
      return undefined;
    });
    if (!deployment) {
      throw new MgrpoError(
        "not-found",
        `--stage ${stage}: ${process.env["AWS_REGION"] ?? "the profile's region"} has no deployment of that name (table '${table}'); check AWS_REGION and AWS_PROFILE, or deploy it: npx sst deploy --stage ${stage}`,
      );
    }
    const names = { MGRPO_TABLE: table, MGRPO_BUCKET: deployment.bucket };
    for (const [variable, name] of Object.entries(names)) {
      const set = process.env[variable];
      if (set && set !== name) {
        throw new MgrpoError(
          "config-invalid",
          `--stage ${stage} has ${variable} '${name}', but the environment has '${set}': give only one of the two`,
        );
      }
    }
    return { table, bucket: deployment.bucket };
  } finally {
    store.close();
  }
}

/** The deployment's functions and instances read only its own bucket. */
export function refuseOtherBucket(deployment: Deployment, names: { table: string; bucket: string }): void {
  if (deployment.bucket === names.bucket) return;
  throw new MgrpoError(
    "config-invalid",
    `MGRPO_BUCKET is '${names.bucket}', but the deployment with table '${names.table}' has bucket '${deployment.bucket}': set both variables to names of the same deployment`,
  );
}

/** Functions and instances of another release could interpret the run's config, score and train differently. */
export function refuseOtherRelease(deployment: Deployment): void {
  const own = release(process.env);
  if (deployment.release === own) return;
  throw new MgrpoError(
    "config-invalid",
    `release ${deployment.release} is deployed, and this is ${own}: launch from the checkout that was deployed, with the same MGRPO_PROJECT if it was set, or deploy this one (npm run pack, then npx sst deploy)`,
  );
}

/** Functions and instances find a user's recipe only by its path in the project that is deployed. */
export function refuseUndeployedRecipe(recipe: string): void {
  const folder = recipeFolder(recipe);
  if (folder === undefined) return;
  const { MGRPO_PROJECT: project } = process.env;
  if (project && isInside(normalize(recipe)) && realpath(resolve(project, recipe)) === realpath(folder)) return;
  const path = project ? relative(realpath(project), realpath(folder)) : "..";
  throw new MgrpoError(
    "config-invalid",
    isInside(path)
      ? `recipe '${recipe}': a deployment finds it by its path in MGRPO_PROJECT: launch ${path || "."}`
      : `recipe '${recipe}' is not deployed: set MGRPO_PROJECT to its project for npm run pack, npx sst deploy and launch (docs/recipes.md)`,
  );
}

/** Whether a relative path stays inside the folder that it starts from. */
const isInside = (path: string): boolean => !isAbsolute(path) && !path.startsWith("..");

/** The path with its links resolved: the working directory's path has none, but the one in MGRPO_PROJECT may. */
const realpath = (path: string): string => (existsSync(path) ? realpathSync(path) : resolve(path));

/**
 * Settings in the form of `--set` that give an agent the policy of its fleet, unless the user chose one.
 *
 * @param owners the agents with a policy of their own.
 */
export function fleetPolicies(
  owners: readonly string[],
  { fleets }: Pick<Deployment, "fleets">,
  set: readonly string[],
): string[] {
  const chosen = chosenBy(set);
  return fleets.flatMap(({ agent, policy }) => {
    const path = `agents.${agent}.policy`;
    const isDefault = policy !== undefined && owners.includes(agent) && chosen(path) === undefined;
    return isDefault ? [`${path}=${policy}`] : [];
  });
}

/** The server of a fleet's policy is reached only from the fleet's instances. Evaluations, and other agents with the policy, run on others. */
export function refuseUnreachableServers({ agents, evaluation }: RunConfig, { fleets }: Deployment): void {
  const served = fleets.filter(({ agent, policy }) => policy !== undefined && agents[agent]?.policy === policy);
  for (const { name, agent } of served) {
    const sharing = agentsOfPolicy(agents, agent).find((other) => other !== agent);
    if (sharing === undefined) continue;
    throw new MgrpoError(
      "config-invalid",
      `agents.${sharing}.policy: '${agent}' is on a server that only the instance of fleet ${name} reaches: give '${sharing}' a policy of its own`,
    );
  }
  const [first] = served;
  if (!first || evaluation.suites.length === 0) return;
  throw new MgrpoError(
    "config-invalid",
    `evaluation.suites: agent '${first.agent}' is on a server that only the instance of fleet ${first.name} reaches: --set evaluation.suites=[]`,
  );
}

/** A run cannot need more workers than a fleet can have instances. */
export function refuseTooManyWorkers(config: RunConfig, { fleets }: Deployment): void {
  for (const { name, agent, roles, max } of fleets) {
    const [setting, workers] =
      agent === "*"
        ? ["evaluation.workers", config.evaluation.workers]
        : [`agents.${agent}.workers`, config.agents[agent]?.workers ?? 0];
    if (workers <= max || !(roles.includes("rollout") || roles.includes("eval"))) continue;
    throw new MgrpoError(
      "config-invalid",
      `${setting} is ${workers}, but fleet ${name} has at most ${max} instances: lower it, or raise max in sst.config.ts and deploy`,
    );
  }
}

/** The workers that no fleet starts, so the user must. */
export function manualWorkers(specs: readonly WorkerSpec[], { fleets }: Deployment): WorkerSpec[] {
  const hasFleet = ({ agent, roles }: WorkerSpec) =>
    roles.every((role) => fleets.some((fleet) => fleet.agent === agent && fleet.roles.includes(role)));
  return specs.filter((spec) => !hasFleet(spec));
}
