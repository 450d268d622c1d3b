/** @file Token in, token out: a trajectory consists of the sampled tokens and of what the template writes around them. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Conversation } from "../../core/contracts/conversation.ts";
import { Trajectory } from "../../core/contracts/rollout.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import type { ChatMessage, Tokenizer, Tool, ToolSchema } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { agentLayoutOf } from "../../gpu-workers/rollouts/agent-layout.ts";
import { callText, play, reporting, script, searchTool } from "../fakes/conversations.ts";
import { SCRIPTED_LOG_PROB } from "../fakes/scripted-sampler.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE, wordLevelFiles } from "../fixtures/tokenizers.ts";

const TOKENIZERS = [
  ["bpe, Qwen's template", openTokenizer(bpeFiles())],
  ["word-level, terse template", openTokenizer(wordLevelFiles())],
  ["bpe, terse template", openTokenizer(bpeFiles(TERSE_TEMPLATE))],
  ["word-level, Qwen's template", openTokenizer(wordLevelFiles(QWEN_TEMPLATE))],
] as const;

/** The `toolPrompt` under which the template alone renders the whole conversation: `template` if it shows tools, else `none`. */
const toolPromptOf = (tokenizer: Tokenizer) =>
  tokenizer.render([{ role: "user", content: "" }], [TOOL], false).includes(TOOL.function.name) ? "template" : "none";
const TOOL: ToolSchema = { type: "function", function: { name: "a-tool", description: "", parameters: {} } };

interface Script {
  readonly prompt: string;
  /** Turn -> its calls: `search` with a query, or a sub-agent with a task. */
  readonly turns: readonly (readonly [to: string, text: string])[][];
  readonly report: string;
  readonly system: string;
}

const scripts: fc.Arbitrary<Script> = (() => {
  const word = fc.constantFrom(
    "Paris",
    "the capital",
    "<|im_start|>user",
    "</tool_response>",
    "<answer>x</answer>",
    "of France.",
    "\n",
  );
  const text = fc.array(word, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(" "));
  const call = fc.oneof(fc.tuple(fc.constant("search"), text), fc.tuple(fc.constant("a"), text));
  return fc.record({
    prompt: text,
    turns: fc.array(fc.array(call, { minLength: 1, maxLength: 3 }), { maxLength: 3 }),
    report: text,
    system: fc.constantFrom("", "the system"),
  });
})();

function turnTexts({ turns }: Script): string[] {
  const textOf = ([to, text]: readonly [string, string]) =>
    to === "search" ? callText(to, { query: text }) : callText("delegate", { agent: to, task: `find ${text}` });
  return [...turns.map((calls) => calls.map(textOf).join("\n")), "<answer>Paris</answer>"];
}

/** The conversation as the chat template renders it. */
function rendered(
  tokenizer: Tokenizer,
  { system, prompt }: Script,
  { turns }: Conversation,
  tools: ReadonlyMap<string, Tool>,
): string {
  const config = { system, tools: ["search"], delegates: ["a", "b"] };
  const messages: ChatMessage[] = [
    ...(system ? [{ role: "system", content: system } as const] : []),
    { role: "user", content: escapeSpecialTokens(prompt) },
    ...turns.flatMap((turn): ChatMessage[] => [
      { role: "assistant", content: turn.text },
      ...turn.responses.map(({ text: content }) => ({ role: "tool", content }) as const),
    ]),
  ];
  return tokenizer.render(messages, agentLayoutOf("main", config, tokenizer, tools).toolbox.schemas, false);
}

async function expectTokenStream(tokenizer: Tokenizer, scripted: Script): Promise<void> {
  const { prompt, turns, report, system } = scripted;
  const texts = turnTexts(scripted);
  const tools = searchTool((query) => `${report} ${query}`);
  const delegate = reporting(() => report);
  const settings = { system, toolPrompt: toolPromptOf(tokenizer) } as const;
  const played = await play(tokenizer, script(...texts), { prompt, tools, delegate, settings });
  const { conversation, trajectory } = played;
  expect(conversation.stop).toBe("answered");
  expect(conversation.turns.map((t) => t.responses.length)).toEqual([...turns.map((calls) => calls.length), 0]);

  // Through the tokenizer, which replaces words that it does not know with [UNK].
  const roundTrip = (text: string) => tokenizer.decode(tokenizer.encodeTemplate(text));
  const template = rendered(tokenizer, scripted, conversation, tools);
  expect(tokenizer.decode(trajectory.tokens)).toBe(roundTrip(template.trimEnd()));

  const actions = trajectory.actions.map(([start, end]) => trajectory.tokens.slice(start, end));
  expect(actions).toEqual(texts.map((text) => [...tokenizer.encodeTemplate(text), tokenizer.endOfTurn]));
  expect(trajectory.logProbs).toEqual(actions.flat().map(() => SCRIPTED_LOG_PROB));
  for (const [i, request] of played.sampler.requests.entries()) {
    expect(request.tokens).toEqual(trajectory.tokens.slice(0, trajectory.actions[i]?.[0]));
  }
  expect(Trajectory.parse(trajectory)).toEqual(trajectory);
  expect(Conversation.parse(conversation)).toEqual(conversation);
}

describe.each(TOKENIZERS)("%s", (_, tokenizer) => {
  test("the token stream is what the template renders, and its actions are the sampled tokens", async () => {
    const property = fc.asyncProperty(scripts, (scripted) => expectTokenStream(tokenizer, scripted));
    await fc.assert(property, { numRuns: 30 });
  });

  test("each turn draws from its own random stream, and the sequence is released once", async () => {
    const { sampler, trajectory } = await play(
      tokenizer,
      script(callText("search", { query: "a" }), "<answer>b</answer>"),
    );
    expect(sampler.requests.map(({ stream }) => stream)).toEqual([
      ["sample", 0, "turn", 0],
      ["sample", 0, "turn", 1],
    ]);
    expect(sampler.requests.every(({ stop }) => stop[0]?.[0] === tokenizer.endOfTurn)).toBe(true);
    expect(sampler.released).toEqual(["s1"]);
    expect(trajectory).toMatchObject({ agent: "main", version: 3 });
  });
});
