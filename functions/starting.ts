/**
 * @file start-run: writes what a run needs, each record once and in this order: config, version 0 and the AGENT record of every agent
 * with a policy of its own, team 0 and its evaluations, an entry in the list of runs, RUN. A repeated start finds the same records. A
 * start with other inputs under the same name is refused.
 */
import * as z from "zod";
import type { Manifest } from "../core/contracts/checkpoint.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import type { StartRun } from "../core/contracts/messages.ts";
import { canonicalJson, parseJson } from "../core/contracts/parse.ts";
import type { AgentRecord, RunRecord } from "../core/contracts/records.ts";
import { ownsPolicy } from "../core/contracts/shared-policy.ts";
import { MgrpoError } from "../core/errors.ts";
import { poolOf } from "../core/training/curriculum.ts";
import { differences } from "../core/training/differences.ts";
import { teamManifest } from "../core/training/step.ts";
import type { Context } from "./context.ts";
import { enqueueEvaluation } from "./evaluating.ts";
import { sha256 } from "./run-objects.ts";

export async function startRun(context: Context, request: StartRun): Promise<void> {
  const { table, clock } = context;
  const { config, questionsSha256 } = request;
  const { run } = config;
  // Fails early if the recipe or a judge's key is missing.
  await context.rewardsOf(config);
  await checkQuestions(context, request);
  await commitOnce(context, run, objectKeys.config(run), config);
  const manifests = await writeAgents(context, request);
  await commitOnce(context, run, objectKeys.team(run, 0), teamManifest(config, 0, manifests));
  await enqueueEvaluation(context, objectKeys.team(run, 0));
  const record: RunRecord = {
    run,
    status: "running",
    reason: "",
    step: 0,
    configSha256: sha256(canonicalJson(config)),
    questionsSha256,
    startedAt: await clock.storeTime(),
    maxHours: config.budget.hours,
    maxUsd: config.budget.usd,
  };
  await table.insert(tableKeys.listed(run), { run });
  await table.insert(tableKeys.run(run), record);
}

async function checkQuestions({ objects, runObjects }: Context, { config, questionsSha256 }: StartRun): Promise<void> {
  const { run } = config;
  const questions = await objects.get(objectKeys.questions(run));
  if (!questions) refuse(run, ["questions.json is not in the store"], UPLOAD);
  if (sha256(questions) !== questionsSha256) refuse(run, ["questions.json: the store has a different one"], RENAME);
  const { train } = await runObjects.questions(run);
  for (const stage of config.curriculum.keys()) poolOf(config, train, stage);
}

/** Version 0 and the AGENT record of every agent with a policy of its own. Returns the manifests' hashes. */
async function writeAgents(context: Context, { config, bases }: StartRun): Promise<Map<string, { sha256: string }>> {
  const { run } = config;
  const manifests = new Map<string, { sha256: string }>();
  for (const agent of Object.keys(config.agents).filter((name) => ownsPolicy(config.agents, name))) {
    const manifest = await version0(context, run, agent, bases[agent]);
    manifests.set(agent, { sha256: await commitOnce(context, run, objectKeys.manifest(run, agent, 0), manifest) });
    const record: AgentRecord = { run, agent, version: 0, trainer: "", fence: 0, takeovers: 0 };
    await context.table.insert(tableKeys.agent(run, agent), record);
  }
  return manifests;
}

/** The manifest of an agent's base files. They must be in the store, except those with an `origin`, which workers verify on opening. */
async function version0(
  { objects }: Context,
  run: string,
  agent: string,
  files: Manifest["files"] | undefined,
): Promise<Manifest> {
  if (!files || Object.keys(files).length === 0) refuse(run, [`bases.${agent}: this agent has no base files`], UPLOAD);
  for (const [name, part] of Object.entries(files)) {
    if (part.origin !== undefined) continue;
    const size = await objects.head(objectKeys.part(run, part.sha256));
    if (size === undefined) refuse(run, [`bases.${agent}: ${name} (${part.sha256}) is not in the store`], UPLOAD);
  }
  return { run, agent, version: 0, trained: false, files, stats: null, seconds: null };
}

/** Commits the record, or checks that the stored one is the same. Returns its SHA-256. */
async function commitOnce({ objects }: Context, run: string, key: string, record: unknown): Promise<string> {
  const text = canonicalJson(record);
  if (await objects.commit(key, new TextEncoder().encode(text))) return sha256(text);
  const stored = new TextDecoder().decode(await objects.get(key));
  if (stored !== text)
    refuse(run, differences(JSON.parse(text), parseJson(z.unknown(), stored, `${key}, which exists already`)), RENAME);
  return sha256(text);
}

const RENAME = "Use another run name, or the config, questions and base models of the first start";
const UPLOAD = "Upload what is missing, then start again";

function refuse(run: string, faults: readonly string[], remedy: string): never {
  throw new MgrpoError("config-invalid", `run '${run}' cannot start: ${faults.join("; ")}. ${remedy}`);
}
