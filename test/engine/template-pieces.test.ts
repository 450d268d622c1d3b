/**
 * @file A conversation's contents in the places where the template writes them; a template that does not write each once is refused. What
 * a template writes is cached, for up to MAX_SHAPES shapes of conversation.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import type { Tokenizer } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { MAX_SHAPES } from "../../engine/tokenizer/template-pieces.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";

const FIXTURES = join(import.meta.dirname, "../fixtures");
const read = (path: string) => Uint8Array.from(readFileSync(join(FIXTURES, path)));
const SETTINGS = { agent: "a", system: "", tools: [] };
const CONVERSATION: readonly AppMessage[] = [
  { role: "system", text: "Be brief." },
  { role: "user", text: "What is the capital of France?" },
  { role: "assistant", text: "Paris", calls: [] },
  { role: "user", text: "What is the capital of Paris?" },
];

test("a conversation is laid out as Mistral's template renders it: with the system message in the last question", () => {
  const names = ["tokenizer.json", "tokenizer_config.json"];
  const files = names.map((name) => [name, read(`tokenizers/mistral/${name}`)] as const);
  const tokenizer = openTokenizer(new Map([...files, ["chat_template.jinja", read("templates/mistral-nemo.jinja")]]));
  const messages = CONVERSATION.map(({ role, text }) => ({ role, content: text }));
  const tokens = openMessageLayout(tokenizer, SETTINGS).opening(CONVERSATION);
  const withoutSpaces = (text: string) => text.replaceAll(" ", "");
  expect(withoutSpaces(tokenizer.decode(tokens))).toBe(withoutSpaces(tokenizer.render(messages, [], true)));
});

test("a template that writes one content twice and another not at all is refused", () => {
  const repeating = TERSE_TEMPLATE.replace(
    "' ' + message.content",
    "' ' + (messages[0].content if loop.index0 == 1 and messages|length > 2 else message.content)",
  );
  const layout = openMessageLayout(openTokenizer(bpeFiles(repeating)), SETTINGS);
  expect(() => layout.opening(CONVERSATION.slice(1))).toThrow(
    "agent 'a': its chat_template leaves out or repeats the content of a message: use a template that writes each once",
  );
});

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

/** Three numbers from 1 to 10, different for every n below 1000. */
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
