/**
 * @file `mgrpo/tools`: tools to give to agents. `openWebTools` is an `OpenTools`: search, page visits, a reasoning model and MCP servers,
 * configured under `tools` in the config (docs/tools.md); it rejects with `config-invalid` when a setting is invalid or a key is missing.
 * `calculate` does arithmetic. `openSearchIndex` builds a full-text index of your own pages, a map from title to text.
 */
export { calculate } from "../adapters/tools/calculate.ts";
export { openSearchIndex, type SearchIndex } from "../adapters/tools/search.ts";
export { openWebTools } from "../adapters/tools/web/open.ts";
