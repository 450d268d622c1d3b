/**
 * @file `mgrpo doctor --model`: what a model is, whether training supports its chat template, and how much memory it needs. The model is a
 * folder, an s3:// prefix, a model on the Hugging Face Hub, an adapter in one of these, or a GGUF file.
 */
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { parse } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { withSettings } from "../../core/training/resolve-config.ts";
import { readAdapter, readAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { checkContext, modelFamily, readModelConfig } from "../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { type StoredWeights, storedWeights } from "../../engine/compiled/open-weights.ts";
import { ggufBytes, ggufTexts } from "../../engine/gguf/import.ts";
import { readGguf } from "../../engine/gguf/metadata.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import type { ToolDisplay } from "../../engine/tokenizer/tool-display.ts";
import { MGRPO, quotedPath } from "../terminal/name.ts";
import { withAdapter } from "./adapters.ts";
import { REQUIRED_FILES, readModel } from "./base-models.ts";
import type { Check } from "./checks.ts";
import { memoryChecks } from "./model-needs.ts";
import { checkTemplate } from "./template-check.ts";
import { OWN_TOKENIZER, sparseVocabulary } from "./vocabulary-check.ts";

const TOOL_DISPLAY: Readonly<Record<ToolDisplay, string>> = {
  template: "it shows the tools itself",
  system: "the system message describes the tools",
  user: "the first user message describes the tools",
  none: "nothing describes the tools: the model must know them from demonstrations",
};

/** `settings` configure an agent with this model, such as `lora.rank=8`. */
export async function checkModel(model: string, settings: readonly string[]): Promise<Check[]> {
  for (const setting of settings) {
    const [, prefix, rest] = /^(agents\.[^.=]+\.)(.+)$/.exec(setting) ?? [];
    if (rest === undefined) continue;
    const message = `--set ${setting}: here it is a setting of the model's agent: leave out '${prefix}': --set ${rest}`;
    throw new MgrpoError("config-invalid", message);
  }
  const agent = agentWith(model, settings);
  const isGguf = model.endsWith(".gguf");
  const { files, stored, suffix } = isGguf ? await readGgufModel(model) : await readFiles(model);
  checkContext(files, agent.limits.contextTokens);
  const own = readAdapterConfig(files)?.lora;
  // As training does, refuses settings other than those of the adapter in the folder.
  if (own && agent.lora) withAdapter("<name>", agent, 0, files);
  const lora = agent.lora ?? own ?? null;
  const trained = lora ? `an adapter of rank ${lora.rank}` : "all weights";
  const config = readModelConfig(files);
  const millions = Number((parameterLayout(config).length / 1e6).toPrecision(3));
  const found = `${modelFamily(files)}, ${millions} million parameters${suffix}; ${agent.trained ? `trained: ${trained}` : "frozen"}`;
  const folder = quotedPath(model.replace(/\.gguf$/, ""));
  const advice = isGguf && { advice: `to train it: ${MGRPO} import ${quotedPath(model)} --to ${folder}` };
  return [
    { name: "model", state: "ok", found, ...advice },
    ...tokenizerChecks(files, config.vocabulary),
    ...templateChecks(agent, files),
    ...memoryChecks(agent, files, stored),
  ];
}

/** Refuses what a run with this agent refuses, and a policy whose memory is not known. */
function agentWith(model: string, settings: readonly string[]): AgentConfig {
  const agent = parse(AgentConfig, withSettings({ model }, settings), "--set", "config-invalid");
  if (agent.policy !== "compiled") {
    const message = `--set policy=${agent.policy}: only the memory of policy 'compiled' is known: leave it out`;
    throw new MgrpoError("config-invalid", message);
  }
  // Its sub-agents are not known here, and need no memory of its worker.
  const agents = { main: { ...agent, delegates: [] } };
  try {
    parse(RunConfig, { run: "doctor", recipe: "any", steps: 1, agents }, "--set", "config-invalid");
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    throw new MgrpoError(error.code, error.message.replaceAll("agents.main.", ""), { cause: error });
  }
  return agent;
}

interface ReadModel {
  readonly files: CheckpointFiles;
  readonly stored: StoredWeights;
  /** Ends the model's description: `" with its adapter"`, or the number formats of a GGUF file, `" as Q4_0"`. Empty for a plain model. */
  readonly suffix: string;
}

async function readFiles(model: string): Promise<ReadModel> {
  const files = await readModel(model, "--model");
  const config = readModelConfig(files);
  const adapter = readAdapter(files, config);
  return { files, stored: storedWeights(files, config), suffix: adapter ? " with its adapter" : "" };
}

/** Describes a GGUF file as the folder that `mgrpo import` would write. */
async function readGgufModel(path: string): Promise<ReadModel> {
  const size = await ggufBytes(path);
  const gguf = await readGguf(path, size);
  const texts = [...ggufTexts(path, size, gguf)].map(([name, text]) => [name, new TextEncoder().encode(text)] as const);
  const types = [...new Set(gguf.tensors.map(({ type }) => type.name))].join(", ");
  const bytes = 4 * gguf.tensors.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  return { files: new Map(texts), stored: { mapped: bytes > LARGE_FILE_BYTES, bytes }, suffix: ` as ${types}` };
}

function tokenizerChecks(files: CheckpointFiles, rows: number): Check[] {
  if (!REQUIRED_FILES.every((name) => files.has(name))) return [];
  const found = sparseVocabulary(files, rows);
  return found === undefined ? [] : [{ name: "tokenizer", state: "missing", found, advice: OWN_TOKENIZER }];
}

/** Checks the template with a tool and a system message, which most agents have. */
function templateChecks(agent: AgentConfig, files: CheckpointFiles): Check[] {
  const settings = { ...agent, tools: ["any"], system: agent.system || "Be brief." };
  const missing = REQUIRED_FILES.find((name) => !files.has(name));
  if (missing !== undefined)
    return [
      { name: "template", state: "broken", found: `${missing} is missing`, advice: "copy it from the base model" },
    ];
  try {
    const tokenizer = openTokenizer(files);
    const display = checkTemplate("<name>", settings, tokenizer);
    const tools = TOOL_DISPLAY[display] + reasonOf(agent, display);
    const found = `supported: each turn only appends to the conversation's tokens; ${tools}; ${thinkingOf(tokenizer)}`;
    return [{ name: "template", state: "ok", found }];
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    return [{ name: "template", state: "broken", found: error.message }];
  }
}

/** Why the system message describes the tools, unless the settings ask for it. */
function reasonOf({ toolPrompt }: AgentConfig, display: ToolDisplay): string {
  if (toolPrompt !== "auto" || display !== "system") return "";
  return ", since the template does not show tools, or asks for calls in a format other than JSON in <tool_call> tags";
}

function thinkingOf({ render }: Tokenizer): string {
  try {
    render([{ role: "user", content: "" }], [], true, true);
    return "thinking can be turned on and off";
  } catch (error) {
    if (!isMgrpoError(error, "config-invalid")) throw error;
    return "thinking cannot be turned on or off";
  }
}
