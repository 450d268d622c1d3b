/**
 * @file Reads base models from folders, `s3://` prefixes or the hub and checks them before anything starts, so that a damaged one never reaches
 * a worker.
 */
import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { openFolderSource } from "../../adapters/checkpoints/folder.ts";
import { openS3Source } from "../../adapters/checkpoints/s3.ts";
import type { CheckpointSource } from "../../core/checkpoint-source.ts";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { parseHubModel } from "../../core/contracts/hub-model.ts";
import { endpointOf, isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { agentsOfPolicy, ownsPolicy, policySettings } from "../../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { ADAPTER_CONFIG_FILE, readAdapter } from "../../engine/checkpoint/adapter.ts";
import { checkContext } from "../../engine/checkpoint/config.ts";
import { OPTIMIZER_FILE_NAMES } from "../../engine/checkpoint/shards.ts";
import { TENSOR_FILE_NAMES } from "../../engine/checkpoint/tensors.ts";
import { checkCheckpoint } from "../../engine/checkpoint/weights.ts";
import { sha256OfFile } from "../../engine/hash.ts";
import { TINKER } from "../../engine/tinker/policy.ts";
import { readVocabulary, tinkerBase } from "../../engine/tinker/version.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { ENDPOINT_FILE } from "../../gpu-workers/checkpoints.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { MGRPO, quotedPath } from "../terminal/name.ts";
import { withAdapter, withBaseModel } from "./adapters.ts";
import { fetchHubModel, isHubModel, pinModel } from "./hub-models.ts";
import { checkTemplate, noteOnTools } from "./template-check.ts";
import { checkTokenizer } from "./vocabulary-check.ts";

/** The files of a checkpoint folder that a model may need. */
export const CHECKPOINT_FILE = /\.(json|safetensors|jinja|txt)$/;
export const REQUIRED_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/** Agent that owns a policy -> the files that the policy starts from. */
export type Bases = ReadonlyMap<string, CheckpointFiles>;

/** Agent -> its model, as the config names it. */
export const modelsOf = ({ agents }: Pick<RunConfig, "agents">): Record<string, string> =>
  Object.fromEntries(Object.entries(agents).map(([name, { model }]) => [name, model]));

/** Reads and checks the base model of every policy, by its owner. `given` files replace those of the agent's folder. */
export async function readBases(
  config: RunConfig,
  use: "train" | "evaluate",
  given: Bases = new Map(),
): Promise<Bases> {
  const bases = new Map<string, CheckpointFiles>();
  for (const name of Object.keys(config.agents).filter((one) => ownsPolicy(config.agents, one))) {
    const agent = policySettings(config.agents, name);
    const files = await readBase(name, agent, config, given.get(name));
    checkSharing(config, name, files);
    bases.set(name, use === "train" ? withAdapter(name, agent, config.seed, files) : files);
  }
  return bases;
}

/**
 * What the training of an agent's policy starts from: its base model, with an adapter if it trains one; checked for every agent that shares it.
 * `note` is called with remarks about the model, such as the one in `noteOnTools`.
 */
export async function readPolicyBase(config: RunConfig, owner: string, note?: Note): Promise<CheckpointFiles> {
  const agent = policySettings(config.agents, owner);
  const base = withAdapter(owner, agent, config.seed, await readBase(owner, agent, config, undefined, note));
  checkSharing(config, owner, base, note);
  return base;
}

/** Checks the chat template of the owner's model with the settings of each other agent that shares the owner's policy. */
function checkSharing(
  { agents, runner }: RunConfig,
  owner: string,
  files: CheckpointFiles,
  note: Note = () => {},
): void {
  const { policy } = agents[owner] as AgentConfig;
  if (policy.startsWith("recipe:")) return;
  for (const name of agentsOfPolicy(agents, owner).filter((agent) => agent !== owner)) {
    checkTools(name, agents[name] as AgentConfig, runner, files, note);
  }
}

/**
 * Checks the template, and notes if the system message describes the tools (`noteOnTools`). With an app, every agent is checked as if it had
 * tools: the app may offer some to any agent, and the config does not name them.
 */
function checkTools(
  name: string,
  agent: AgentConfig,
  runner: RunConfig["runner"],
  files: CheckpointFiles,
  note: Note,
): void {
  const settings = runner === "native" ? agent : { ...agent, tools: ["any"] };
  noteOnTools(name, agent, checkTemplate(name, settings, openTokenizer(files)), note);
}

type TeamSettings = Pick<RunConfig, "seed" | "runner">;
type Note = (message: string) => void;

async function readBase(
  name: string,
  agent: AgentConfig,
  team: TeamSettings,
  given?: CheckpointFiles,
  note: Note = () => {},
): Promise<CheckpointFiles> {
  const { model, policy } = agent;
  // The weights are behind an API: version 0 records which model it serves.
  if (isEndpointPolicy(policy)) return new Map([[ENDPOINT_FILE, recordBytes(endpointOf(agent))]]);
  const setting = `agents.${name}.model`;
  if (policy.startsWith("recipe:")) return given ?? (await readFolder(model, setting));
  const isServed = policy.startsWith(TINKER);
  const read = () => (isServed ? readFolder(model, setting, false) : readModel(model, setting));
  const files = given ? await withBase(given, model, setting) : await read();
  if (isServed && files.has(ADAPTER_CONFIG_FILE)) {
    const fault = `model of agent '${name}', ${model}: a Tinker server does not load an adapter`;
    throw new MgrpoError("config-invalid", `${fault}: set the model to its base`);
  }
  for (const file of REQUIRED_FILES) {
    if (files.has(file)) continue;
    throw new MgrpoError("checkpoint-damaged", `${fileIn(model, file)} is missing: agent '${name}' needs it`);
  }
  try {
    return checkBase(name, agent, team, files, note);
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    const remedy = isHubModel(model) ? await remedyInCache(error.message, model, setting) : "";
    const message = `model of agent '${name}', ${model}: ${error.message}${remedy}`;
    throw new MgrpoError(error.code, message, { cause: error.cause });
  }
}

/** How to download a damaged file of a hub model again: the cache keeps its copy until that is deleted. Empty for any other fault. */
async function remedyInCache(fault: string, model: string, setting: string): Promise<string> {
  const [, file] = /^([^:/]+): .*: download the file again/.exec(fault) ?? [];
  if (file === undefined) return "";
  // For an adapter, the damaged file may be its base's, in another folder.
  const path = await fetchHubModel(model, setting, false)
    .then(({ folder }) => realpath(join(folder, file)))
    .catch(() => undefined);
  return path === undefined ? "" : ` (to download it again, delete ${path} first)`;
}

/** The files that the agent's engine starts from: for a Tinker server, a pointer in place of the weights. */
function checkBase(
  name: string,
  agent: AgentConfig,
  { seed, runner }: TeamSettings,
  files: CheckpointFiles,
  note: Note,
): CheckpointFiles {
  const { model, policy, limits } = agent;
  if (policy.startsWith(TINKER)) {
    checkTokenizer(name, files, readVocabulary(files), note);
    checkTools(name, agent, runner, files, note);
    return tinkerBase(
      policy,
      basename(parseHubModel(model)?.repository ?? model),
      files,
      [seed, name],
      agent.lora?.rank,
    );
  }
  checkContext(files, limits.contextTokens);
  const config = checkCheckpoint(files);
  readAdapter(files, config);
  checkTokenizer(name, files, config.vocabulary, note);
  checkTools(name, agent, runner, files, note);
  return files;
}

/**
 * The files of a folder, an `s3://` prefix or a hub model; for an adapter, also those of its base. Large weights from S3 and all files from the
 * hub are kept in this machine's caches.
 */
export async function readModel(model: string, setting: string): Promise<CheckpointFiles> {
  const files = await readFolder(model, setting);
  return withBase(files, model, fileIn(model, ADAPTER_CONFIG_FILE));
}

/** Not `join`, which turns `s3://` into `s3:/`. */
const fileIn = (model: string, file: string): string => `${model.replace(/\/+$/, "")}/${file}`;

/** `setting`: what names the base model. */
function withBase(files: CheckpointFiles, model: string, setting: string): Promise<CheckpointFiles> {
  return withBaseModel(
    files,
    model,
    (base) => readFolder(base, setting),
    (base) => pinModel(base, setting),
  );
}

/** Without `withWeights`, the weights are neither read nor downloaded: they may outgrow this machine. */
async function readFolder(given: string, setting: string, withWeights = true): Promise<CheckpointFiles> {
  if (given.endsWith(".gguf")) throw notImported(given, setting);
  if (!isHubModel(given)) return readFiles(given, setting, withWeights);
  const { folder, originOf } = await fetchHubModel(given, setting, withWeights);
  const files = await readFiles(folder, setting, withWeights);
  const withOrigin = (name: string, file: CheckpointFile) =>
    file instanceof Uint8Array ? file : { ...file, origin: originOf(name) };
  return new Map([...files].map(([name, file]) => [name, withOrigin(name, file)]));
}

function sourceOf(model: string, setting: string): readonly [source: CheckpointSource, folder: string] {
  if (!model.startsWith("s3://")) return [openFolderSource(dirname(resolve(model))), basename(resolve(model))];
  const [, parent, folder] = /^(s3:\/\/[^/]+.*)\/([^/]+)\/*$/.exec(model) ?? [];
  if (parent !== undefined && folder !== undefined) return [openS3Source(parent), folder];
  throw new MgrpoError("config-invalid", `${setting}: '${model}' names no folder: write s3://<bucket>/<folder>`);
}

/** Leaves out the optimizer state stored with the weights: it is not part of the model, and training starts with a fresh one. */
async function readFiles(model: string, setting: string, withWeights: boolean): Promise<CheckpointFiles> {
  const [source, folder] = sourceOf(model, setting);
  const listing = await source.list(folder).catch((error: unknown) => {
    if (isMgrpoError(error, "not-found")) return undefined;
    throw error;
  });
  const isRead = (file: string) => CHECKPOINT_FILE.test(file) && !OPTIMIZER_FILE_NAMES.test(file);
  const names = [...(listing?.get(folder)?.keys() ?? [])].filter(isRead).sort();
  const wanted = withWeights ? names : names.filter((file) => !TENSOR_FILE_NAMES.test(file));
  if (names.length > 0) return source.read(folder, wanted);
  const isFolder = !model.startsWith("s3://") && listing?.has(folder) === true;
  const fault = isFolder ? await noModelIn(model) : `no checkpoint folder '${model}': ${GIVE_MODEL}`;
  throw new MgrpoError("checkpoint-damaged", `${setting}: ${fault}`);
}

const GIVE_MODEL = "give hf:<owner>/<name>, or the folder of a model in the Hugging Face layout";

/** The message about a folder without a model. Its subfolders that hold models, as in what `mgrpo sft` writes, are suggested instead. */
async function noModelIn(folder: string): Promise<string> {
  const listing = await openFolderSource(folder).list();
  const models = [...listing].filter(([, files]) => files.has("config.json") || files.has(ADAPTER_CONFIG_FILE));
  const names = models.map(([name]) => join(folder, name)).sort();
  return `the folder '${folder}' has no files of a model: ${names.length > 0 ? `name one of its folders: ${names.join(", ")}` : GIVE_MODEL}`;
}

/**
 * A run records the SHA-256 of its model files, and several processes memory-map them, so a GGUF file is converted first. The user chooses where,
 * because the result is up to 7 times as large.
 */
function notImported(file: string, setting: string): MgrpoError {
  const folder = file.replace(/\.gguf$/, "");
  return new MgrpoError(
    "config-invalid",
    `${setting}: ${file} is a GGUF file: convert it once with ${MGRPO} import ${quotedPath(file)} --to ${quotedPath(folder)}, then name ${folder}`,
  );
}

/** Refuses a model that workers on other machines cannot read: large files do not go through the store. */
export function refuseLocalFiles(agent: string, files: CheckpointFiles): void {
  for (const file of files.values()) {
    if (file instanceof Uint8Array || file.origin !== undefined) continue;
    throw new MgrpoError(
      "config-invalid",
      `agents.${agent}.model: ${file.path} (${Math.round(file.bytes / 1e6)} MB) is too large to be sent through the run's store: ` +
        "put the model under s3:// and name that, or name a model of the hub",
    );
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
