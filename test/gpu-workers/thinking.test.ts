/** @file The setting `thinking` sets the template's enable_thinking, which decides how a turn opens. Earlier turns keep their tokens. */
import { describe, expect, test } from "vitest";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { openAgentLayout } from "../../gpu-workers/rollouts/agent-layout.ts";
import { QWEN3_TEMPLATE } from "../fixtures/qwen3.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

const EMPTY_THINKING = "<think>\n\n</think>\n\n";
const HEADER = "<|im_start|>assistant\n";
const settings = { system: "Be brief.", tools: [], delegates: [] };
const qwen3 = openTokenizer(bpeFiles(QWEN3_TEMPLATE));

/** The decoded tokens of a conversation of two turns. */
function decodedConversation(tokenizer: typeof qwen3, thinking: { thinking?: boolean }, turnText: string): string {
  const layout = openAgentLayout("a", { ...settings, ...thinking }, tokenizer, new Map());
  const turn = [...tokenizer.encodeTemplate(turnText), tokenizer.endOfTurn];
  const tokens = [
    ...layout.prompt("Where?"),
    ...turn,
    ...layout.responses(["here"], []),
    ...turn,
    ...layout.responses(["there", "nowhere"], [1]),
  ];
  return tokenizer.decode(tokens);
}

describe.each([
  ["unset", {}, ""],
  ["on", { thinking: true }, ""],
  ["off", { thinking: false }, EMPTY_THINKING],
])("thinking %s", (_, thinking, opening) => {
  test("every turn has the same opening, keeps its sampled tokens, and is followed by its responses", () => {
    const turn = opening === "" ? "<think>\nhm\n</think>\n\nsearch" : "search";
    expect(decodedConversation(qwen3, thinking, turn)).toBe(
      `<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhere?<|im_end|>\n${HEADER}${opening}${turn}<|im_end|>\n` +
        `<|im_start|>user\n<tool_response>\nhere\n</tool_response><|im_end|>\n${HEADER}${opening}${turn}<|im_end|>\n` +
        "<|im_start|>user\n<tool_response>\nthere\n</tool_response>\n<tool_response>\nnowhere\n</tool_response><|im_end|>\n" +
        `${HEADER}${opening}`,
    );
  });
});

test("a template whose generation prompt opens a thinking block opens one in every turn", () => {
  const always = openTokenizer(
    bpeFiles(QWEN3_TEMPLATE.replace("'<|im_start|>assistant\\n' }}", "'<|im_start|>assistant\\n<think>\\n' }}")),
  );
  expect(decodedConversation(always, {}, "hm\n</think>\n\nsearch").split(`${HEADER}<think>\n`)).toHaveLength(4);
});

test("the setting thinking is refused if the template has no enable_thinking", () => {
  const layout = () => openAgentLayout("a", { ...settings, thinking: true }, openTokenizer(bpeFiles()), new Map());
  expect(layout).toThrow(/chat_template \(tokenizer_config.json\) has no enable_thinking to set: remove the setting/);
});
