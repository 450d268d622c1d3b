/**
 * @file The tools: web tools as configured under `tools` (docs/tools.md), and the one that reads attachments. Without a search engine,
 * `search`, `visit` and `calculate` are those of atlas, so that the recipe needs neither keys nor a network.
 */
import { attachment } from "../../adapters/tools/attachment.ts";
import { openWebTools } from "../../adapters/tools/web/open.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tool } from "../../core/ports.ts";
import type { OpenTools } from "../../core/recipe.ts";
import { tools as atlas } from "../atlas/tools.ts";

/** Settings for reading web pages. */
const PAGE_SETTINGS = ["visit", "extract", "blocked"];

export const tools: OpenTools = async (opening) => {
  const { tools: settings } = opening.config;
  const usesAtlas = settings["search"] === undefined;
  const own: [string, Tool][] = [[attachment.name, attachment], ...(usesAtlas ? atlas : [])];
  if (usesAtlas && Object.keys(settings).length === 0) return { tools: new Map(own), close: async () => {} };
  const unused = usesAtlas && PAGE_SETTINGS.find((name) => settings[name] !== undefined);
  if (unused) {
    throw new MgrpoError(
      "config-invalid",
      `tools.${unused} does nothing without a search engine, since no web page is read: name one, such as --set tools.search.backend=serper`,
    );
  }
  const web = await openWebTools(opening);
  return { ...web, tools: new Map([...web.tools, ...own]) };
};
