/** @file `limits.responseTokens`: what a tool answers is cut by the agent's own tokenizer, of which the tools are told. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Tool } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { callText, play, script } from "../fakes/conversations.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

test("a response takes so many tokens, with a mark", async () => {
  const tokenizer = openTokenizer(bpeFiles());
  const page = "find the capital of France, \u4e2d\u4e2d ".repeat(40);
  const told: unknown[] = [];
  const search: Tool = {
    name: "search",
    description: "Finds pages.",
    parameters: z.looseObject({}),
    run: async (_, { responseTokens }) => {
      told.push(responseTokens);
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
  expect(told).toEqual([expect.objectContaining({ tokens: 30 })]);
});
