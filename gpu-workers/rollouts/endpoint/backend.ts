/**
 * @file An agent behind an API: messages in, messages out, and the server's own count of tokens. It knows how long the conversation was
 * only after each turn, so `contextTokens` is checked then: what its calls return comes on top.
 *
 * By `native` calls the server is told of tools and answers with calls; by `text` both are words (text-calls.ts). Either way what it
 * says is written down in the language of conversations and read by the one parser, and what it is shown has lost its markers before.
 */
import type { AgentEndpoint } from "../../../core/contracts/language-model.ts";
import { writeTurn } from "../../../core/conversation/native.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import type { AssistantTurn, ChatModel, ChatPart } from "../../../core/language-model-ports.ts";
import type { Part, Speaker } from "../backend.ts";
import { explainCalls, responsesAsText } from "./text-calls.ts";

export function endpointSpeaker(
  { agent, version, config, tools, sampling }: Part,
  model: ChatModel,
  calls: AgentEndpoint["calls"],
): Speaker {
  const toolbox = openToolbox(agent, config, tools);
  const isNative = calls === "native";
  const system = isNative ? config.system : explainCalls(config.system, toolbox.schemas);
  const conversation: ChatPart[] = system === "" ? [] : [{ kind: "told", role: "system", text: system }];
  const usage = { inputTokens: 0, outputTokens: 0 };
  /** Tokens of the conversation, as of its last turn. */
  let counted = 0;
  let last: AssistantTurn | undefined;

  return {
    toolbox,
    ask(prompt) {
      conversation.push({ kind: "told", role: "user", text: prompt });
      return 0;
    },
    async say(_turn, maxTokens, signal) {
      const offered = isNative ? toolbox.schemas : [];
      const turn = await model.generate(
        { conversation: [...conversation], tools: offered, sampling, maxTokens },
        signal,
      );
      conversation.push({ kind: "said", turn });
      last = turn;
      usage.inputTokens += turn.usage.inputTokens;
      usage.outputTokens += turn.usage.outputTokens;
      const tokens = Math.max(0, turn.usage.inputTokens + turn.usage.outputTokens - counted);
      counted += tokens;
      return { text: isNative ? writeTurn(turn) : asText(turn), tokens, stop: turn.stop };
    },
    hear(texts) {
      const made = last?.calls ?? [];
      // Calls that it wrote as words, which stand before those that it made by the API, are answered in words.
      const written = texts.slice(0, texts.length - made.length);
      const results = made.map((call, i) => ({ call, text: texts[written.length + i] ?? "" }));
      if (results.length > 0) conversation.push({ kind: "results", results });
      if (written.length > 0) conversation.push({ kind: "told", role: "user", text: responsesAsText(written) });
      return 0;
    },
    trajectory: () => ({ agent, version, model: config.model, usage: { ...usage } }),
    close() {},
  };
}

function asText({ thinking, text }: AssistantTurn): string {
  return thinking === "" ? text : `<think>\n${thinking}\n</think>\n\n${text}`;
}
