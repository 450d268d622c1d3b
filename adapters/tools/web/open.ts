/**
 * @file Opens the web tools of a run as its settings say: `search` and `visit`, `reason` where there is a model for it, `calculate`, and
 * the tools of MCP servers. What is missing is said before anything runs.
 */
import { PRICE } from "../../../core/contracts/budget.ts";
import { objectKeys } from "../../../core/contracts/keys.ts";
import type { LanguageModelSpec } from "../../../core/contracts/language-model.ts";
import { parse } from "../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { LanguageModel, Tool } from "../../../core/ports.ts";
import type { OpenedTools, ToolsOpening } from "../../../core/recipe.ts";
import { openReader } from "../documents/reader.ts";
import { openBackends } from "./external/backend.ts";
import { allowanceOf, openRunBudget, type RunBudget } from "./external/budget.ts";
import { type AnswerCache, openAnswerCache } from "./external/cache.ts";
import { openExternalCalls } from "./external/calls.ts";
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
import { type ModelSettings, type SearchSettings, WebSettings } from "./settings.ts";
import { addressCheck } from "./visit/addresses.ts";
import { guardedAgent } from "./visit/guard.ts";
import { leakageGuard } from "./visit/leakage.ts";
import { visitTool } from "./visit/visit.ts";

/** Opens a model that tools ask. Rejects with `config-invalid` when its key is missing. */
export type OpenModel = (spec: LanguageModelSpec, environment: ToolsOpening["environment"]) => Promise<LanguageModel>;

export async function openWebTools(opening: ToolsOpening, openModel: OpenModel = ask): Promise<OpenedTools> {
  const { config, environment, store } = opening;
  const settings = parse(WebSettings, config.tools, `tools of run '${config.run}'`, "config-invalid");
  const isReplay = settings.cache.mode === "replay";
  const variable = (place: string) => (name: string) => {
    const value = environment[name];
    // A replay asks nobody.
    if (value || isReplay) return value ?? "";
    throw new MgrpoError("config-invalid", `${place} needs the environment variable ${name}, which is not set`);
  };

  const backends = openBackends(store?.clock ?? { sleep: async () => {} });
  const reader = openReader();
  const dispatcher = guardedAgent(addressCheck(settings.visit.allowAddresses));
  const guard = leakageGuard(settings.blocked);
  const outside = openExternalCalls({
    cache: cacheOf(settings, opening),
    runBudget: store ? await openRunBudget(config.run, settings.budget.run, store.table) : UNCOUNTED,
    backends,
    guard,
  });
  const servers: McpServer[] = [];
  const close = async () => {
    const parts = [backends.close(), reader.close(), dispatcher.destroy(), ...servers.map((server) => server.close())];
    await Promise.all(parts);
  };

  try {
    const { search, visit, reason, extract } = settings;
    refuseUnpriced(settings, config);
    const modelOf = async ({ model: spec, ...rest }: ModelSettings): Promise<ToolModel> => ({
      ...rest,
      usdPerMillionTokens: rest.usdPerMillionTokens ?? FREE,
      name: spec.provider === "openai" ? `${spec.baseUrl} ${spec.model}` : `${spec.provider} ${spec.model}`,
      model: isReplay ? NOBODY : await openModel(spec, environment),
    });
    const offered: Tool[] = [
      visitTool({
        settings: visit,
        fetching: { ...visit, dispatcher, guard },
        reader,
        outside,
        ...(extract && { extractForGoal: goalExtractor(await modelOf(extract), outside) }),
      }),
    ];
    if (search) offered.push(searchTool(search, searchBackend(search, variable("tools.search.keyVariable")), outside));
    if (reason) offered.push(reasonTool(await modelOf(reason), outside));
    // Large libraries, loaded where somebody calls what needs them.
    if (Object.values(config.agents).some(({ tools }) => tools.includes("calculate"))) {
      offered.push((await import("../calculate.ts")).calculate);
    }
    for (const [name, its] of Object.entries(settings.mcp)) {
      if (isReplay && !its.cached)
        throw new MgrpoError("config-invalid", `tools.mcp.${name}.cached is false: its answers cannot be replayed`);
      const [{ openMcpServer }, { mcpTools }] = await Promise.all([
        import("./mcp/server.ts"),
        import("./mcp/tools.ts"),
      ]);
      const server = openMcpServer(name, its, variable(`tools.mcp.${name}`));
      servers.push(server);
      offered.push(...(await mcpTools(name, its, server, outside)));
    }
    const tools = new Map(offered.map((tool) => [tool.name, tool]));
    if (tools.size < offered.length)
      throw new MgrpoError("config-invalid", "tools.mcp: two tools have the same name: rename a server");
    const allowance = allowanceOf(settings.budget.rollout);
    return { tools, close, ...(allowance && { allowance }) };
  } catch (error) {
    await close();
    throw error;
  }
}

const FREE = { input: 0, output: 0 };

/** A limit in dollars that would not count what a model is paid. */
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
      `tools.${name}.usdPerMillionTokens: ${limit} would not count it: set ${PRICE}`,
    );
  }
}

const ask: OpenModel = async (spec, environment) => {
  const { openLanguageModel } = await import("../../llm/open.ts");
  return openLanguageModel(spec, { environment });
};

/** In a replay. */
const NOBODY: LanguageModel = {
  complete: () => Promise.reject(new MgrpoError("not-found", "a replay asks no model")),
};

/** Tools that are only looked at ask nothing of anybody but MCP servers, for what they offer. */
const UNCOUNTED: RunBudget = {
  charge: async () => {},
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

function searchBackend(settings: SearchSettings, variable: (name: string) => string): SearchBackend {
  switch (settings.backend) {
    case "serper":
      return serper(settings.url, settings.keyVariable, variable(settings.keyVariable));
    case "tavily":
      return tavily(settings.url, settings.keyVariable, variable(settings.keyVariable));
    case "brave":
      return brave(settings.url, settings.keyVariable, variable(settings.keyVariable));
    case "searxng":
      return searxng(settings.url);
  }
}
