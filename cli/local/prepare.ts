/**
 * @file Puts a run into its store: base files as parts (large ones by name and hash only), the questions, then start-run. Every write is a
 * commit, so a second try after a crash finds the same things there.
 */
import { basename, dirname, join, resolve } from "node:path";
import { openFolderSource } from "../../adapters/checkpoints/folder.ts";
import { openS3Source } from "../../adapters/checkpoints/s3.ts";
import type { AgentConfig, RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { endpointOf, isEndpointPolicy } from "../../core/contracts/language-model.ts";
import type { StartRun } from "../../core/contracts/messages.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { type Extension, extendsAny } from "../../core/training/budget.ts";
import { ADAPTER_CONFIG_FILE, readAdapter } from "../../engine/checkpoint/adapter.ts";
import { checkContext } from "../../engine/checkpoint/config.ts";
import { checkCheckpoint } from "../../engine/checkpoint/weights.ts";
import { sha256, sha256OfFile } from "../../engine/hash.ts";
import { TINKER } from "../../engine/tinker/policy.ts";
import { readVocabulary, tinkerBase } from "../../engine/tinker/version.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { checkVocabulary } from "../../engine/tokenizer/vocabulary.ts";
import { ENDPOINT } from "../../gpu-workers/checkpoints.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { withAdapter, withBaseModel } from "./adapters.ts";
import type { EmbeddedCloud } from "./embedded-cloud.ts";
import { resumeInStore } from "./resume-in-store.ts";

/** Files of a checkpoint that a model is opened by, and others as small. */
export const CHECKPOINT_FILE = /\.(json|safetensors|jinja|txt)$/;
const NEEDED = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/** The base models, by agent. */
export type Bases = ReadonlyMap<string, CheckpointFiles>;

/**
 * Reads and checks every agent's base model, so that a damaged one is refused before anything starts. Files that are `given` are
 * taken instead of those of the agent's folder. `train`: with the adapters that are to be trained.
 */
export async function readBases(
  config: RunConfig,
  use: "train" | "evaluate",
  given: Bases = new Map(),
): Promise<Bases> {
  const bases = new Map<string, CheckpointFiles>();
  for (const [name, agent] of Object.entries(config.agents)) {
    const files = await readBase(name, agent, config.seed, given.get(name));
    bases.set(name, use === "train" ? withAdapter(name, agent, config.seed, files) : files);
  }
  return bases;
}

async function readBase(
  name: string,
  agent: AgentConfig,
  seed: number,
  given: CheckpointFiles | undefined,
): Promise<CheckpointFiles> {
  const { model, policy, limits } = agent;
  // An API's weights are elsewhere: version 0 says whose they are.
  if (isEndpointPolicy(policy)) return new Map([[ENDPOINT, recordBytes(endpointOf(agent))]]);
  const setting = `agents.${name}.model`;
  if (policy.startsWith("recipe:")) return given ?? (await readFolder(model, setting));
  const files = given
    ? await withBaseModel(given, model, (base) => readFolder(base, setting))
    : await readModel(model, setting);
  for (const file of NEEDED) {
    if (files.has(file)) continue;
    throw new MgrpoError("checkpoint-damaged", `${join(model, file)} is missing: agent '${name}' needs it`);
  }
  try {
    if (policy.startsWith(TINKER)) {
      checkVocabulary(files, readVocabulary(files));
      checkTokenizer(files, agent);
      return tinkerBase(policy, basename(model), files, [seed, name]);
    }
    checkContext(files, limits.contextTokens);
    const config = checkCheckpoint(files);
    readAdapter(files, config);
    checkVocabulary(files, config.vocabulary);
    checkTokenizer(files, agent);
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    throw new MgrpoError(error.code, `model of agent '${name}', ${model}: ${error.message}`, { cause: error.cause });
  }
  return files;
}

/** That it can be opened, and its template takes the agent's settings. */
function checkTokenizer(files: CheckpointFiles, { thinking }: AgentConfig): void {
  openTokenizer(files).render([{ role: "user", content: "" }], [], true, thinking);
}

/** Files of a folder, or of an `s3://` prefix, whose large ones come into this machine's cache; of an adapter, with its base's. */
export async function readModel(model: string, setting: string): Promise<CheckpointFiles> {
  const files = await readFolder(model, setting);
  return withBaseModel(files, model, (base) => readFolder(base, join(model, ADAPTER_CONFIG_FILE)));
}

async function readFolder(model: string, setting: string): Promise<CheckpointFiles> {
  const [, parent = "", name = ""] = /^(s3:\/\/.*)\/([^/]+)\/*$/.exec(model) ?? [];
  const [source, folder] = model.startsWith("s3://")
    ? [openS3Source(parent), name]
    : [openFolderSource(dirname(resolve(model))), basename(resolve(model))];
  const there = await source.look(folder).catch((error: unknown) => {
    if (isMgrpoError(error, "not-found")) return undefined;
    throw error;
  });
  const files = [...(there?.get(folder)?.keys() ?? [])].filter((file) => CHECKPOINT_FILE.test(file)).sort();
  if (files.length > 0) return source.read(folder, files);
  const message = `${setting}: no checkpoint folder '${model}': give the folder of a model in the Hugging Face layout`;
  throw new MgrpoError("checkpoint-damaged", message);
}

/** Refuses models that workers on other machines cannot read: large files are not copied into the store. */
export function refuseLocal(bases: Bases): void {
  for (const [agent, files] of bases) {
    for (const file of files.values()) {
      if (file instanceof Uint8Array || file.origin !== undefined) continue;
      throw new MgrpoError(
        "config-invalid",
        `agents.${agent}.model: ${file.path} (${Math.round(file.bytes / 1e6)} MB) is too large to be sent through the run's store: ` +
          "put the model under s3:// and name that",
      );
    }
  }
}

/** Agent -> file -> SHA-256. */
export async function hashesOf(bases: Bases): Promise<Record<string, Record<string, string>>> {
  const hashes: Record<string, Record<string, string>> = {};
  for (const [agent, files] of bases) {
    const entries = [...files].map(async ([name, file]) => [name, await sha256OfFile(file)] as const);
    hashes[agent] = Object.fromEntries(await Promise.all(entries));
  }
  return hashes;
}

/** Starts the run, or finds it started and goes on with it. */
export async function startOrResume(
  session: Pick<EmbeddedCloud, "store" | "functions">,
  config: RunConfig,
  bases: () => Bases | Promise<Bases>,
  questions: () => QuestionSet | Promise<QuestionSet>,
  extension: Extension = {},
): Promise<void> {
  const { objects, table } = session.store;
  const item = await table.get(tableKeys.run(config.run));
  if (item) {
    await resumeInStore(session.store, config, parse(RunRecord, item, `RUN ${config.run}`), extension);
    await session.functions.wake();
    return;
  }
  if (extendsAny(extension)) {
    throw new MgrpoError(
      "config-invalid",
      `'${config.run}' has not begun: there is nothing to extend, leave the option out`,
    );
  }
  const questionBytes = recordBytes(await questions());
  await objects.commit(objectKeys.questions(config.run), questionBytes);
  const parts: StartRun["bases"] = {};
  for (const [agent, files] of await bases()) {
    parts[agent] = {};
    for (const [name, file] of files) {
      const hash = await sha256OfFile(file);
      if (file instanceof Uint8Array) {
        await objects.commit(objectKeys.part(config.run, hash), file);
        parts[agent][name] = { sha256: hash, bytes: file.length };
      } else parts[agent][name] = { sha256: hash, bytes: file.bytes, origin: file.origin ?? file.path };
    }
  }
  await session.functions.startRun({ config, questionsSha256: sha256(questionBytes), bases: parts });
}
