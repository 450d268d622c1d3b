/** @file `limits.responseTokens`: tool responses are cut by the agent's own tokenizer, and tools get the limit. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Tool } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { callText, play, script } from "../fakes/conversations.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

test("a response is cut to the limit, a mark follows, and the tool receives the limit", async () => {
  const tokenizer = openTokenizer(bpeFiles());
  const page = "find the capital of France, \u4e2d\u4e2d ".repeat(40);
  const seen: unknown[] = [];
  const search: Tool = {
    name: "search",
    description: "Finds pages.",
    parameters: z.looseObject({}),
    run: async (_, { responseTokens }) => {
      seen.push(responseTokens);
      return page;
    },
  };
  const { conversation } = await play(tokenizer, script(callText("search", { query: "x" }), "<answer>x</answer>"), {
    tools: new Map([["search", search]]),
    limits: { responseTokens: 30 },
  });
  const shown = conversation.turns[0]?.responses[0]?.text ?? "";
  expect(shown).toMatch(/^find the capital .* \[cut\]$/s);
  expect(tokenizer.encodeText(shown.replace(" [cut]", ""))).toHaveLength(30);
  expect(seen).toEqual([expect.objectContaining({ tokens: 30 })]);
});
