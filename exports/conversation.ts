/**
 * @file `mgrpo/conversation`: conversations of agents as data; depends only on zod. `openToolbox` returns an agent's tools with their JSON
 * schemas, `parseTurn` reads the calls or the answer in a turn, `openConversation` and `advanceConversation` are the reducer that decides
 * what comes next, from texts and token counts. `escapeSpecialTokens` makes role markers and protocol tags in untrusted text harmless;
 * `presentResponse` also cuts a tool response to a length; `openToolBudget` tracks the external tool calls and the dollars that a
 * conversation has left of its rollout's tool budget.
 */

export { parseTurn } from "../core/conversation/parse-turn.ts";
export { advanceConversation, openConversation, type PlannedCall } from "../core/conversation/reducer.ts";
export { escapeSpecialTokens, presentResponse } from "../core/conversation/special-tokens.ts";
export { openToolBudget, type ToolBudget } from "../core/conversation/tool-budget.ts";
export { openToolbox, type Toolbox } from "../core/conversation/toolbox.ts";
