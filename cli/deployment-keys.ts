/**
 * @file API keys of a run on a deployment. Its functions and its fleets' instances have those of the deployment's secrets (stacks/secrets.ts),
 * neither the keys of the machine that launches the run nor its AWS credentials.
 */
import { WebSettings } from "../adapters/tools/web/settings.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { Deployment } from "../core/contracts/deployment.ts";
import { needsJudge } from "../core/contracts/evaluation-suite.ts";
import { endpointOf, isEndpointPolicy, isOpenAi, LanguageModelSpec } from "../core/contracts/language-model.ts";
import { MgrpoError } from "../core/errors.ts";

/** The variable in which a deployment's functions and evaluation workers find the judge's key. */
const JUDGE_VARIABLE = "MGRPO_JUDGE_KEY";
/** The variables in which instances find the keys of tools and of models behind APIs. */
const WORKER_VARIABLES = ["MGRPO_SEARCH_KEY", "MGRPO_MODEL_KEY"];

/** A judge is asked by functions, or by instances that evaluate. */
export function refuseKeylessJudge(config: RunConfig, { fleets }: Deployment, rewardsAskJudge: boolean): void {
  const { judge, evaluation } = config;
  const suitesAskJudge = fleets.some(({ roles }) => roles.includes("eval")) && evaluation.suites.some(needsJudge);
  if (!judge || !(rewardsAskJudge || suitesAskJudge)) return;
  if ([undefined, JUDGE_VARIABLE].includes(keyVariableOf(judge.model))) return;
  throw new MgrpoError(
    "config-invalid",
    `judge.model: a deployment has the judge's key in ${JUDGE_VARIABLE} only: write the model as an object with keyVariable ${JUDGE_VARIABLE}, and set the secret JudgeKey (docs/deploy.md)`,
  );
}

/** Refuses a run whose tools, agents or runner need a key that instances do not have: each would boot, refuse the run and end. */
export function refuseKeylessWorkers(config: RunConfig, { fleets }: Deployment): void {
  const evaluates = fleets.some(({ agent }) => agent === "*") && config.evaluation.suites.length > 0;
  const agents = Object.entries(config.agents).filter(
    ([name]) => evaluates || fleets.some(({ agent }) => agent === name),
  );
  if (agents.length === 0) return;
  if (typeof config.runner === "object")
    throw new MgrpoError(
      "config-invalid",
      "runner.url: a fleet's instances have no secret for an app, and it cannot reach their gateways: launch the run on a deployment without fleets (MGRPO_FLEETS=none), and start workers on your own machines",
    );
  for (const [name, agent] of agents) {
    if (!isEndpointPolicy(agent.policy)) continue;
    requireKnown(`agents.${name}.endpoint.keyVariable`, keyVariableOf(LanguageModelSpec.parse(endpointOf(agent))));
  }
  if (agents.every(([, { tools }]) => tools.length === 0)) return;
  // Not all recipes have the web tools, whose settings these are.
  const web = WebSettings.safeParse(config.tools).data;
  // A replay calls no backend.
  if (!web || web.cache.mode === "replay") return;
  for (const [setting, variable] of toolKeys(web)) requireKnown(`tools.${setting}`, variable);
}

/** The settings of web tools that name a key, each with its variable. */
function toolKeys({
  search,
  mcp,
  reason,
  extract,
}: WebSettings): (readonly [setting: string, variable: string | undefined])[] {
  const servers = Object.entries(mcp).flatMap(([name, server]) => {
    if ("command" in server) return [];
    const variables = [...Object.values(server.headers), ...Object.values(server.query)];
    return variables.map((variable) => [`mcp.${name}`, variable] as const);
  });
  const models = Object.entries({ reason, extract }).flatMap(([name, settings]) =>
    settings ? [[`${name}.model`, keyVariableOf(settings.model)] as const] : [],
  );
  const engine = search && "keyVariable" in search ? [["search.keyVariable", search.keyVariable] as const] : [];
  return [...engine, ...servers, ...models];
}

function requireKnown(setting: string, variable: string | undefined): void {
  if (variable === undefined || WORKER_VARIABLES.includes(variable)) return;
  throw new MgrpoError(
    "config-invalid",
    `${setting}: a fleet's instances have no ${variable}: name ${WORKER_VARIABLES.join(" or ")} instead, and set the secret SearchKey or ModelKey (docs/deploy.md)`,
  );
}

/** The variable that holds a model's key; undefined if its server needs none. */
function keyVariableOf(model: LanguageModelSpec): string | undefined {
  if (model.keyVariable !== undefined) return model.keyVariable;
  if (model.provider === "bedrock") return "AWS_BEARER_TOKEN_BEDROCK";
  return isOpenAi(model.baseUrl) ? "OPENAI_API_KEY" : undefined;
}
