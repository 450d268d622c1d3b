/** @file The web tools, opened on the test world: it serves as their search backend (Serper by default), and they may visit its address. */

import { type OpenModel, openWebTools } from "../../adapters/tools/web/open.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { openToolBudget } from "../../core/conversation/tool-budget.ts";
import type { Store, ToolContext } from "../../core/ports.ts";
import type { OpenedTools } from "../../core/recipe.ts";
import { address, question } from "../fakes/conversations.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { SEARCH_KEY } from "./search-api.ts";
import type { WorldServer } from "./server.ts";

export interface WorldTools extends OpenedTools {
  readonly store: Store;
  /** Calls a tool as an agent would: with an unlimited tool budget, unless `context` has another. */
  call(name: string, args: Record<string, unknown>, context?: Partial<ToolContext>): Promise<string>;
}

export function worldSettings({ origin }: WorldServer, changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    search: { backend: "serper", url: `${origin}/serper`, requestsPerSecond: 1000 },
    visit: { allowAddresses: ["127.0.0.1/32"], requestsPerSecond: 1000 },
    ...changes,
  };
}

export function worldConfig(tools: Record<string, unknown>, changes: object = {}): RunConfig {
  return RunConfig.parse({ run: "web", recipe: "web", steps: 1, agents: { main: { model: "m" } }, tools, ...changes });
}

export async function openWorldTools(
  world: WorldServer,
  changes: Record<string, unknown> = {},
  { store = memoryStore(), openModel, run = "web" }: { store?: Store; openModel?: OpenModel; run?: string } = {},
): Promise<WorldTools> {
  const environment = { SERPER_API_KEY: SEARCH_KEY, TAVILY_API_KEY: SEARCH_KEY, BRAVE_API_KEY: SEARCH_KEY };
  const config = worldConfig(worldSettings(world, changes), { run });
  const opened = await openWebTools({ config, environment, store }, openModel);
  return {
    ...opened,
    store,
    call(name, args, context = {}) {
      const tool = opened.tools.get(name);
      if (!tool) throw new Error(`no tool ${name}`);
      return tool.run(tool.parameters.parse(args) as never, {
        ...{
          question,
          address,
          budget: openToolBudget(undefined),
          responseCharacters: 4000,
          signal: new AbortController().signal,
        },
        ...context,
      });
    },
  };
}
