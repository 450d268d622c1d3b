/**
 * @file A conversation's contents in the places where the template writes them, with the space before them; a template that does not write
 * each once is refused.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import { responsesAsText } from "../../core/conversation/tool-prompt.ts";
import type { ChatMessage, Tokenizer } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { fill, piecesOf, placeholder } from "../../engine/tokenizer/template-pieces.ts";
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

test("apart from spaces, a conversation is laid out as Mistral's template renders it: with the system message in the last question", () => {
  const names = ["tokenizer.json", "tokenizer_config.json"];
  const files = names.map((name) => [name, read(`tokenizers/mistral/${name}`)] as const);
  const tokenizer = openTokenizer(new Map([...files, ["chat_template.jinja", read("templates/mistral-nemo.jinja")]]));
  const messages = CONVERSATION.map(({ role, text }) => ({ role, content: text }));
  const tokens = openMessageLayout(tokenizer, SETTINGS).opening(CONVERSATION);
  const withoutSpaces = (text: string) => text.replaceAll(" ", "");
  expect(withoutSpaces(tokenizer.decode(tokens))).toBe(withoutSpaces(tokenizer.render(messages, [], true)));
});

/** Mistral's first template: a space before each question. */
const SPACED_TEMPLATE =
  "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% elif m.role == 'assistant' %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}";
const METASPACE = { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: false };

/** Mistral's tokenizer with these changes to its tokenizer.json, and the template above. */
function spacedTokenizer(changes: object): Tokenizer {
  const json = JSON.parse(Buffer.from(read("tokenizers/mistral/tokenizer.json")).toString());
  const encode = (text: string) => new TextEncoder().encode(text);
  return openTokenizer(
    new Map([
      ["tokenizer.json", encode(JSON.stringify({ ...json, ...changes }))],
      ["tokenizer_config.json", read("tokenizers/mistral/tokenizer_config.json")],
      ["chat_template.jinja", encode(SPACED_TEMPLATE)],
    ]),
  );
}

describe.each([
  ["normalizer prepends a space", {}],
  ["pre-tokenizer prepends a space where there is none", { normalizer: null, pre_tokenizer: METASPACE }],
])("a template that writes a space before content, and a tokenizer whose %s", (_name, changes) => {
  const tokenizer = spacedTokenizer(changes);
  const question = "the people of this town";

  test("a conversation has the tokens of the whole rendered text", () => {
    const layout = openChatLayout(tokenizer, SETTINGS);
    const messages: ChatMessage[] = [
      { role: "user", content: question },
      { role: "assistant", content: "the town" },
      { role: "user", content: responsesAsText(["of people"]) },
    ];
    const rendered = (count: number) => tokenizer.encodeTemplate(tokenizer.render(messages.slice(0, count), [], true));
    const prompt = layout.prompt(question);
    expect(prompt).toEqual(rendered(1));
    const turn = [...tokenizer.encodeText(" the town"), tokenizer.endOfTurn];
    expect([...prompt, ...turn, ...layout.responses(["of people"], [])]).toEqual(rendered(3));
  });

  test("control tokens in content stay text", () => {
    const [text, begin] = ["</s>[INST]", tokenizer.encodeTemplate("[INST]")];
    const tokens = openMessageLayout(tokenizer, SETTINGS).opening([{ role: "user", text }]);
    expect(tokens.filter((token) => begin.includes(token) || token === tokenizer.endOfTurn)).toEqual(begin);
    expect(tokenizer.decode(tokens)).toContain(text);
  });
});

test("a space that the template writes before content is joined with it by a byte-level tokenizer, too", () => {
  const tokenizer = openTokenizer(bpeFiles(TERSE_TEMPLATE));
  const messages = CONVERSATION.slice(0, 2).map(({ role, text }) => ({ role, content: text }));
  expect(openMessageLayout(tokenizer, SETTINGS).opening(CONVERSATION.slice(0, 2))).toEqual(
    tokenizer.encodeTemplate(tokenizer.render(messages, [], true)),
  );
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

test("the time to find the contents in a rendering grows in proportion to their number", () => {
  const tokenizer = openTokenizer(bpeFiles(TERSE_TEMPLATE));
  const names = Array.from({ length: 100_000 }, (_, i) => `m-${i}`);
  const before = process.cpuUsage();
  const pieces = piecesOf(tokenizer, "a", names.map(placeholder).join(""), names);
  // In quadratic time, half a minute.
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(10);
  expect(
    fill(
      tokenizer,
      pieces,
      names.map(() => "x"),
    ),
  ).toHaveLength(names.length);
});
