/** @file What a template writes is cached, for up to MAX_SHAPES shapes of conversation. */
import { expect, test } from "vitest";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import type { Tokenizer } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { MAX_SHAPES } from "../../engine/tokenizer/template-pieces.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";

const SETTINGS = { agent: "a", system: "", tools: [] };
const CONVERSATION: readonly AppMessage[] = [
  { role: "user", text: "What is the capital of France?" },
  { role: "assistant", text: "Paris", calls: [] },
  { role: "user", text: "What is the capital of Paris?" },
];

/** A tokenizer, and how often its template has been rendered. */
function countingTokenizer(): { readonly tokenizer: Tokenizer; readonly renderings: () => number } {
  const opened = openTokenizer(bpeFiles(TERSE_TEMPLATE));
  let count = 0;
  const render: Tokenizer["render"] = (...args) => {
    count += 1;
    return opened.render(...args);
  };
  return { tokenizer: { ...opened, render }, renderings: () => count };
}

/** Three numbers from 1 to 10: a different triple for every n below 1000. */
const countsOf = (n: number): [number, number, number] => [
  1 + Math.floor(n / 100),
  1 + (Math.floor(n / 10) % 10),
  1 + (n % 10),
];

test("turns of a cached shape render nothing, until other shapes have filled the cache", () => {
  const { tokenizer, renderings } = countingTokenizer();
  const layout = openChatLayout(tokenizer, SETTINGS);
  const renderingsOf = (earlier: readonly number[], responses: number) => {
    const before = renderings();
    layout.responses(new Array<string>(responses).fill("x"), earlier);
    return renderings() - before;
  };
  expect(renderingsOf([], 1)).toBe(2);
  expect(renderingsOf([], 1)).toBe(0);
  for (let n = 0; n < MAX_SHAPES; n++) {
    const [first, second, third] = countsOf(n);
    renderingsOf([first, second], third);
  }
  expect(renderingsOf([], 1)).toBe(2);
});

test("served conversations of a cached shape render nothing, until other shapes have filled the cache", () => {
  const { tokenizer, renderings } = countingTokenizer();
  const layout = openMessageLayout(tokenizer, SETTINGS);
  const renderingsOf = (messages: readonly AppMessage[]) => {
    const before = renderings();
    layout.opening(messages);
    return renderings() - before;
  };
  expect(renderingsOf(CONVERSATION)).toBe(1);
  expect(renderingsOf(CONVERSATION)).toBe(0);
  const user: AppMessage = { role: "user", text: "x" };
  const assistant: AppMessage = { role: "assistant", text: "y", calls: [] };
  for (let n = 0; n < MAX_SHAPES; n++) {
    const parts = countsOf(n).map((users) => [...new Array<AppMessage>(users).fill(user), assistant]);
    renderingsOf(parts.flat());
  }
  expect(renderingsOf(CONVERSATION)).toBe(1);
});
