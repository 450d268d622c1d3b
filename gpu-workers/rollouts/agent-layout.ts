/** @file An agent's chat layout with its toolbox. If the prompt describes tools, they are exactly those that the agent can call. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { openToolbox, type Toolbox } from "../../core/conversation/toolbox.ts";
import type { Tokenizer, Tool } from "../../core/ports.ts";
import { type ChatLayout, openChatLayout } from "../../engine/tokenizer/chat-layout.ts";

export interface AgentLayout extends ChatLayout {
  readonly toolbox: Toolbox;
}

type LayoutConfig = Pick<AgentConfig, "system" | "tools" | "delegates"> &
  Partial<Pick<AgentConfig, "thinking" | "toolPrompt">>;

export function openAgentLayout(
  agent: string,
  config: LayoutConfig,
  tokenizer: Tokenizer,
  tools: ReadonlyMap<string, Tool>,
): AgentLayout {
  const toolbox = openToolbox(agent, config, tools);
  const { system, thinking, toolPrompt } = config;
  return { toolbox, ...openChatLayout(tokenizer, { agent, system, thinking, toolPrompt, tools: toolbox.schemas }) };
}

/** The layout of an agent, shared by all its conversations: rendering its template costs more than a short turn. */
export const agentLayoutOf = ((): typeof openAgentLayout => {
  const known = new WeakMap<Tokenizer, WeakMap<LayoutConfig, WeakMap<ReadonlyMap<string, Tool>, AgentLayout>>>();
  return (agent, config, tokenizer, tools) => {
    const byConfig =
      known.get(tokenizer) ?? new WeakMap<LayoutConfig, WeakMap<ReadonlyMap<string, Tool>, AgentLayout>>();
    const byTools = byConfig.get(config) ?? new WeakMap<ReadonlyMap<string, Tool>, AgentLayout>();
    const layout = byTools.get(tools) ?? openAgentLayout(agent, config, tokenizer, tools);
    known.set(tokenizer, byConfig.set(config, byTools.set(tools, layout)));
    return layout;
  };
})();
