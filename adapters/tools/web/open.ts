/**
 * @file Opens the web tools of a run from its settings: `visit`; `search` if it has a backend, `reason` if it has a model, `calculate` if an
 * agent uses it; and MCP tools. Missing keys are reported before any tool is called.
 */
import type { Dispatcher } from "undici";
import { PRICE_ADVICE } from "../../../core/contracts/budget.ts";
import { objectKeys } from "../../../core/contracts/keys.ts";
import type { LanguageModelSpec } from "../../../core/contracts/language-model.ts";
import { parse } from "../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { LanguageModel, Tool } from "../../../core/ports.ts";
import type { OpenedTools, ToolsOpening } from "../../../core/recipe.ts";
import { type Redact, redactor } from "../../../core/redact.ts";
import { openReader, type Reader } from "../documents/reader.ts";
import { type Backends, openBackends } from "./external/backend.ts";
import { allowanceOf, openRunBudget, type RunBudget } from "./external/budget.ts";
import { type AnswerCache, openAnswerCache } from "./external/cache.ts";
import { type ExternalCalls, openExternalCalls } from "./external/calls.ts";
import { openFolderObjects } from "./external/folder-objects.ts";
import type { McpServer } from "./mcp/server.ts";
import { goalExtractor } from "./models/extract.ts";
import type { ToolModel } from "./models/model.ts";
import { reasonTool } from "./models/reason.ts";
import type { SearchBackend } from "./search/backend.ts";
import { brave } from "./search/brave.ts";
import { searchTool } from "./search/search.ts";
import { searxng } from "./search/searxng.ts";
import { serper } from "./search/serper.ts";
import { tavily } from "./search/tavily.ts";
import { type McpSettings, type ModelSettings, type SearchSettings, variablesOf, WebSettings } from "./settings.ts";
import { addressCheck } from "./visit/addresses.ts";
import { guardedAgent } from "./visit/guard.ts";
import { type LeakageGuard, leakageGuard } from "./visit/leakage.ts";
import { visitTool } from "./visit/visit.ts";

/** Opens a model for a tool. Rejects with `config-invalid` when its key is missing. */
export type OpenModel = (spec: LanguageModelSpec, environment: ToolsOpening["environment"]) => Promise<LanguageModel>;

/**
 * Opens what `config.tools` sets, MCP servers included. Rejects with `config-invalid` for an invalid setting, a missing
 * key, an MCP tool that is missing or cannot be offered, or a model without a price under a dollar limit; with
 * `tool-backend` if an MCP server does not start or list its tools, or a tool's JSON Schema cannot be used; with
 * `not-found` if a replay lacks the stored list of a server's tools; with `run-halted` if the request for that list
 * exceeds the run's budget.
 */
export async function openWebTools(opening: ToolsOpening, openModel: OpenModel = openDefault): Promise<OpenedTools> {
  const { config } = opening;
  const settings = parse(WebSettings, config.tools, `tools of run '${config.run}'`, "config-invalid");
  refuseUnpriced(settings, config);
  const services = await openServices(settings, opening, openModel);
  try {
    // Names are unique: an MCP tool is named `<server>_<tool>`, and no other tool here and no server has an underscore in its name.
    const tools = new Map((await offeredTools(services)).map((tool) => [tool.name, tool]));
    const allowance = allowanceOf(settings.budget.rollout);
    return { tools, close: () => closeServices(services), ...(allowance && { allowance }) };
  } catch (error) {
    await closeServices(services);
    throw error;
  }
}

/** Shared by the tools of one run. */
interface Services {
  readonly settings: WebSettings;
  readonly opening: ToolsOpening;
  readonly openModel: OpenModel;
  readonly backends: Backends;
  readonly reader: Reader;
  readonly dispatcher: Dispatcher;
  readonly guard: LeakageGuard;
  readonly calls: ExternalCalls;
  readonly redact: Redact;
  /** Opened servers, which must be closed. */
  readonly servers: McpServer[];
}

async function openServices(settings: WebSettings, opening: ToolsOpening, openModel: OpenModel): Promise<Services> {
  const { config, environment, store } = opening;
  const redact = redactor(variablesOf(settings).map((name) => environment[name] ?? ""));
  const backends = openBackends(store?.clock ?? { sleep: async () => {} }, redact);
  const guard = leakageGuard(settings.blocked);
  return {
    settings,
    opening,
    openModel,
    backends,
    reader: openReader(),
    dispatcher: guardedAgent(addressCheck(settings.visit.allowAddresses)),
    guard,
    calls: openExternalCalls({
      cache: cacheOf(settings, opening),
      runBudget: store ? await openRunBudget(config.run, settings.budget.run, store.table) : UNMETERED_BUDGET,
      backends,
      guard,
      redact,
    }),
    redact,
    servers: [],
  };
}

async function closeServices({ backends, reader, dispatcher, servers }: Services): Promise<void> {
  const closing = servers.map((server) => server.close());
  await Promise.all([backends.close(), reader.close(), dispatcher.destroy(), ...closing]);
}

async function offeredTools(services: Services): Promise<Tool[]> {
  const { settings, opening, calls } = services;
  const { search, reason } = settings;
  const tools = [await openVisit(services)];
  if (search) tools.push(searchTool(search, searchBackend(search, services), calls));
  if (reason) tools.push(reasonTool(await toolModel(reason, services), calls));
  // mathjs is large, so it is loaded only if an agent calculates.
  if (Object.values(opening.config.agents).some((agent) => agent.tools.includes("calculate")))
    tools.push((await import("../calculate.ts")).calculate);
  for (const [name, server] of Object.entries(settings.mcp))
    tools.push(...(await openMcpTools(name, server, services)));
  return tools;
}

async function openVisit(services: Services): Promise<Tool> {
  const { settings, dispatcher, guard, reader, calls } = services;
  const { visit, extract } = settings;
  return visitTool({
    settings: visit,
    fetching: { ...visit, dispatcher, guard },
    reader,
    calls,
    ...(extract && { extractForGoal: goalExtractor(await toolModel(extract, services), calls) }),
  });
}

async function openMcpTools(name: string, settings: McpSettings, services: Services): Promise<Tool[]> {
  if (isReplay(services.settings) && !settings.cached)
    throw new MgrpoError(
      "config-invalid",
      `tools.mcp.${name}.cached is false, so its answers cannot be replayed: set tools.cache.mode=cached, which calls this server again`,
    );
  const [{ openMcpServer }, { mcpTools }] = await Promise.all([import("./mcp/server.ts"), import("./mcp/tools.ts")]);
  const variables = (variable: string) => readVariable(variable, `tools.mcp.${name}`, services);
  const server = openMcpServer(name, settings, variables, services.redact);
  services.servers.push(server);
  return mcpTools(name, settings, server, services.calls);
}

async function toolModel({ model: spec, ...settings }: ModelSettings, services: Services): Promise<ToolModel> {
  const { opening, openModel } = services;
  return {
    ...settings,
    usdPerMillionTokens: settings.usdPerMillionTokens ?? FREE,
    name: spec.provider === "openai" ? `${spec.baseUrl} ${spec.model}` : `${spec.provider} ${spec.model}`,
    model: isReplay(services.settings) ? REPLAY_MODEL : await openModel(spec, opening.environment),
  };
}

/** The value of an environment variable; `setting` names what needs it. */
function readVariable(name: string, setting: string, { settings, opening }: Services): string {
  const value = opening.environment[name];
  // A replay calls no backend, so it needs no keys.
  if (value || isReplay(settings)) return value ?? "";
  throw new MgrpoError(
    "config-invalid",
    `${setting} needs the environment variable ${name}, which is empty or not set`,
  );
}

const isReplay = ({ cache }: WebSettings) => cache.mode === "replay";

const FREE = { input: 0, output: 0 };

/** A dollar limit needs the price of every model. */
function refuseUnpriced({ reason, extract, budget }: WebSettings, { budget: { usd } }: ToolsOpening["config"]): void {
  const limits = {
    "budget.usd": usd,
    "tools.budget.run.usd": budget.run.usd,
    "tools.budget.rollout.usd": budget.rollout.usd,
  };
  const limit = Object.entries(limits).find(([, dollars]) => dollars !== null)?.[0];
  for (const [name, model] of Object.entries({ reason, extract })) {
    if (limit === undefined || !model || model.usdPerMillionTokens) continue;
    throw new MgrpoError(
      "config-invalid",
      `tools.${name}.usdPerMillionTokens: ${limit} cannot count this model's tokens without a price: set ${PRICE_ADVICE}`,
    );
  }
}

const openDefault: OpenModel = async (spec, environment) => {
  const { openLanguageModel } = await import("../../llm/open.ts");
  return openLanguageModel(spec, { environment });
};

/** Replays answer from the cache only. */
const REPLAY_MODEL: LanguageModel = {
  complete: () => Promise.reject(new MgrpoError("not-found", "a replay calls no model")),
};

/** Without a store, no tool is called; MCP servers are only asked which tools they have. */
const UNMETERED_BUDGET: RunBudget = {
  charge: async () => {},
  settle: async () => {},
  chargeMore: async () => {},
  countBlocked: async () => {},
};

function cacheOf({ cache: { mode, run, folder } }: WebSettings, { config, store }: ToolsOpening): AnswerCache {
  const keyOf = (sha256: string) => objectKeys.toolAnswer(run ?? config.run, sha256);
  if (folder !== null)
    return openAnswerCache({ mode, objects: openFolderObjects(folder), keyOf: (sha256) => `${sha256}.json` });
  if (store) return openAnswerCache({ mode, objects: store.objects, keyOf });
  return { answer: (_request, _schema, ask) => ask() };
}

function searchBackend(settings: SearchSettings, services: Services): SearchBackend {
  if (settings.backend === "searxng") return searxng(settings.url);
  const { url, keyVariable } = settings;
  const key = readVariable(keyVariable, "tools.search.keyVariable", services);
  return { serper, tavily, brave }[settings.backend](url, keyVariable, key);
}
