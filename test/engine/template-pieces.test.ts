/** @file A conversation's contents in the places where the template writes them; a template that does not write each once is refused. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
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

test("Mistral's template moves the system message to the last question: every other content stays in its own message", () => {
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
