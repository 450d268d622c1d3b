/**
 * @file The backend of a model behind an API: messages in, messages out. The server counts tokens, after each turn, so `contextTokens` is
 * checked only then: the responses to a turn's calls can exceed it.
 *
 * With `native` calls the server knows the tools and returns calls; with `text` both are plain text (tool-prompt.ts). Either way a turn is
 * written in the format of parse-turn.ts and read by that one parser.
 */
import type { AgentEndpointSettings } from "../../../core/contracts/language-model.ts";
import { turnText } from "../../../core/conversation/api-turn.ts";
import { explainCalls, responsesAsText } from "../../../core/conversation/tool-prompt.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import type { AssistantTurn, ChatModel, ChatPart } from "../../../core/language-model-ports.ts";
import type { AgentBackend, BackendOptions } from "../backend.ts";

export function endpointBackend(
  { agent, version, config, tools, sampling }: BackendOptions,
  model: ChatModel,
  calls: AgentEndpointSettings["calls"],
): AgentBackend {
  const toolbox = openToolbox(agent, config, tools);
  const isNative = calls === "native";
  const system = isNative ? config.system : explainCalls(config.system, toolbox.schemas);
  const conversation: ChatPart[] = system === "" ? [] : [{ kind: "message", role: "system", text: system }];
  const usage = { inputTokens: 0, outputTokens: 0 };
  /** Tokens of the conversation as of its last turn. */
  let counted = 0;
  let last: AssistantTurn | undefined;

  return {
    toolbox,
    start(prompt) {
      conversation.push({ kind: "message", role: "user", text: prompt });
      return 0;
    },
    async generate(_turn, maxTokens, signal) {
      const offered = isNative ? toolbox.schemas : [];
      const reply = await model.generate(
        { conversation: [...conversation], tools: offered, sampling, maxTokens },
        signal,
      );
      // A server may return calls although it was offered no tools: nothing answers them, so they are not sent back.
      const turn = isNative ? reply : { ...reply, calls: [] };
      conversation.push({ kind: "turn", turn });
      last = turn;
      usage.inputTokens += turn.usage.inputTokens;
      usage.outputTokens += turn.usage.outputTokens;
      const tokens = Math.max(0, turn.usage.inputTokens + turn.usage.outputTokens - counted);
      counted += tokens;
      return { text: isNative ? turnText(turn) : withThinking(turn), tokens, stop: turn.stop };
    },
    observe(responses) {
      conversation.push(...responseParts(last?.calls ?? [], responses));
      return 0;
    },
    trajectory: () => ({ agent, version, model: config.model, usage: { ...usage } }),
    close() {},
  };
}

/** Calls that the model wrote as text come before those it made through the API, and are answered as text. */
function responseParts(apiCalls: AssistantTurn["calls"], responses: readonly string[]): ChatPart[] {
  const written = responses.slice(0, responses.length - apiCalls.length);
  const results = apiCalls.map((call, i) => ({ call, text: responses[written.length + i] ?? "" }));
  const parts: ChatPart[] = [];
  if (results.length > 0) parts.push({ kind: "results", results });
  if (written.length > 0) parts.push({ kind: "message", role: "user", text: responsesAsText(written) });
  return parts;
}

function withThinking({ thinking, text }: AssistantTurn): string {
  return thinking === "" ? text : `<think>\n${thinking}\n</think>\n\n${text}`;
}
