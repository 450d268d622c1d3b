/** @file The answer that the TypeScript example apps read from a model's last message. */
import { expect, test } from "vitest";
import { taggedAnswer } from "../../examples/atlas-app/sources.ts";

test.each<[string, string | undefined]>([
  ["<answer>Peru</answer>", "Peru"],
  ["It is <answer> Peru </answer>.", "Peru"],
  ["Peru", undefined],
  ["<answer> </answer>", undefined],
  ["<answer>Peru", undefined],
  ["<answer>Peru<answer>", undefined],
  ["</answer>Peru<answer>", undefined],
  ["<answer>Peru</answer> or <answer>Chile</answer>", undefined],
  ["<answer>Peru</answer><tool_call>", undefined],
])("the answer in %s is %s", (text, answer) => {
  expect(taggedAnswer(text)).toBe(answer);
});
