/**
 * @file Word-level and BPE tokenizers: known text round-trips, data never becomes a control token, encodings are cached, chat templates are
 * rendered, and damaged files are refused.
 */
import { Tokenizer as Library } from "@huggingface/tokenizers";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { isMgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE, withFile, wordLevelFiles } from "../fixtures/tokenizers.ts";

const KINDS = [
  ["word-level", wordLevelFiles()],
  ["bpe", bpeFiles()],
] as const;
const SPECIAL_TOKENS = [
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>",
];
const mixed = fc
  .array(
    fc.oneof(
      fc.constantFrom(...SPECIAL_TOKENS, "Paris", " ", "\n", "<", "|"),
      fc.string({ unit: "grapheme", maxLength: 3 }),
    ),
  )
  .map((parts) => parts.join(""));

test.each(KINDS)("%s: data never becomes a control token, whatever the text", (_, files) => {
  const tokenizer = openTokenizer(files);
  const markers = new Set(SPECIAL_TOKENS.flatMap((marker) => tokenizer.encodeTemplate(marker)));
  expect(markers.size).toBe(SPECIAL_TOKENS.length);
  fc.assert(
    fc.property(mixed, (text) => {
      expect(tokenizer.encodeText(text).filter((id) => markers.has(id))).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

test("bpe: NFC text round-trips, as data and as template", () => {
  const tokenizer = openTokenizer(bpeFiles());
  fc.assert(
    fc.property(mixed, (text) => {
      const normalized = Buffer.from(text.normalize("NFC")).toString();
      expect(tokenizer.decode(tokenizer.encodeText(normalized))).toBe(normalized);
      expect(tokenizer.decode(tokenizer.encodeTemplate(normalized))).toBe(normalized);
    }),
    { numRuns: 500 },
  );
});

test("word-level: known text round-trips, unknown words become [UNK]", () => {
  const tokenizer = openTokenizer(wordLevelFiles());
  const word = fc.constantFrom("Paris", "capital", "search", "a", "7", " ", "\n", "{", '"', ":", ",", ".");
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const text = words.join(" ");
      expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
    }),
  );
  expect(tokenizer.decode(tokenizer.encodeText("visit Xanadu ."))).toBe("visit [UNK] .");
  expect(tokenizer.decode(tokenizer.encodeText("a , b . it 's"))).toBe("a , b . it 's");
});

test.each(KINDS)(
  "%s: <|im_end|> in template text ends a turn; empty text has no tokens; an unknown id decodes to U+FFFD",
  (_, files) => {
    const tokenizer = openTokenizer(files);
    expect(tokenizer.encodeTemplate("<|im_end|>")).toEqual([tokenizer.endOfTurn]);
    expect(tokenizer.encodeText("")).toEqual([]);
    expect(tokenizer.decode([])).toBe("");
    expect(tokenizer.decode([999_999, tokenizer.endOfTurn])).toBe("\uFFFD<|im_end|>");
  },
);

test("in a BPE model, the unk_token of tokenizer_config.json is a control token like any other: it may end turns", () => {
  const config = JSON.stringify({
    eos_token: "<|im_end|>",
    unk_token: { content: "<|im_end|>" },
    chat_template: QWEN_TEMPLATE,
  });
  const tokenizer = openTokenizer(withFile(bpeFiles(), "tokenizer_config.json", config));
  const plain = openTokenizer(bpeFiles());
  expect(tokenizer.endOfTurn).toBe(plain.endOfTurn);
  expect(tokenizer.encodeText("a<|im_end|>")).toEqual(plain.encodeText("a<|im_end|>"));
});

test("the tokens of a text are cached, except those of a text of more than 20,000 characters", () => {
  const encode = vi.spyOn(Library.prototype, "encode");
  onTestFinished(() => encode.mockRestore());
  const { encodeText } = openTokenizer(bpeFiles());
  const encodings = (text: string) => {
    const before = encode.mock.calls.length;
    const tokens = encodeText(text);
    expect(encodeText(text)).toEqual(tokens);
    return encode.mock.calls.length - before;
  };
  expect(encodings("ab ".repeat(6666))).toBe(1);
  expect(encodings("ab ".repeat(6667))).toBe(2);
});

test("the template renders tools and tool messages; chat_template.jinja is preferred to the config's", () => {
  const messages = [
    { role: "user", content: "q" },
    { role: "assistant", content: "a" },
    { role: "tool", content: "1" },
    { role: "tool", content: "2" },
  ] as const;
  const schema = { type: "function", function: { name: "search", description: "Finds.", parameters: {} } } as const;
  const tokenizer = openTokenizer(bpeFiles());
  expect(tokenizer.render(messages, [schema], true)).toContain('{"type": "function", "function": {"name": "search"');
  expect(tokenizer.render(messages, [], true)).toBe(
    "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n" +
      "<tool_response>\n2\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
  );
  const other = openTokenizer(withFile(wordLevelFiles(), "chat_template.jinja", QWEN_TEMPLATE));
  expect(other.render(messages, [], true)).toBe(tokenizer.render(messages, [], true));
});

test.each(["\r\n", "\r"])("a template whose lines end with %j renders as with \\n, as in transformers", (end) => {
  const template =
    "{% for m in messages %}\n<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\n<|im_start|>assistant\n";
  const rendered = (text: string) =>
    openTokenizer(withFile(bpeFiles(), "chat_template.jinja", text)).render(
      [{ role: "user", content: "q\r\n" }],
      [],
      true,
    );
  expect(rendered(template.replaceAll("\n", end))).toBe(rendered(template));
  expect(rendered(template)).toBe("<|im_start|>user\nq\r\n<|im_end|>\n<|im_start|>assistant");
});

test("a conversation with tools is rendered with the template tool_use, one without tools with default, as in transformers", () => {
  const chat_template = [
    { name: "default", template: TERSE_TEMPLATE },
    { name: "tool_use", template: `{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}${QWEN_TEMPLATE}` },
  ];
  const tokenizer = openTokenizer(withFile(bpeFiles(), "tokenizer_config.json", JSON.stringify({ chat_template })));
  const messages = [{ role: "user", content: "q" }] as const;
  const schema = { type: "function", function: { name: "search", description: "Finds.", parameters: {} } } as const;
  expect(tokenizer.render(messages, [], true)).toBe("<|im_start|>user q<|im_end|><|im_start|>assistant ");
  expect(tokenizer.render(messages, [schema], true)).toMatch(/^\{"type": "function".*<tools>/s);
});

test("strftime_now gives a template a fixed date, not today's", () => {
  const template = `{{ strftime_now("%d %b %Y") }}${QWEN_TEMPLATE}`;
  expect(openTokenizer(bpeFiles(template)).render([{ role: "user", content: "q" }], [], false)).toMatch(/^26 Jul 2024/);
});

const json = (files: ReadonlyMap<string, Uint8Array>, name = "tokenizer.json") =>
  JSON.parse(Buffer.from(files.get(name) ?? []).toString());
const changed = (files: ReadonlyMap<string, Uint8Array>, change: (tokenizer: ReturnType<typeof json>) => void) => {
  const tokenizer = json(files);
  change(tokenizer);
  return withFile(files, "tokenizer.json", JSON.stringify(tokenizer));
};

test.each<[string, CheckpointFiles, RegExp]>([
  [
    "no tokenizer.json",
    withFile(bpeFiles(), "tokenizer.json", undefined),
    /^tokenizer\.json: the checkpoint has no such file/,
  ],
  [
    "no tokenizer_config.json",
    withFile(bpeFiles(), "tokenizer_config.json", undefined),
    /^tokenizer_config\.json: the checkpoint has no such/,
  ],
  [
    "a truncated tokenizer.json",
    withFile(bpeFiles(), "tokenizer.json", '{"model":'),
    /^tokenizer\.json: not JSON: download the file again, or restore it from a backup$/,
  ],
  ["no model", withFile(bpeFiles(), "tokenizer.json", '{"added_tokens":[]}'), /^tokenizer\.json: model: /],
  [
    "a vocabulary without ids",
    changed(bpeFiles(), (t) => {
      t.model.vocab = { a: "b" };
    }),
    /^tokenizer\.json: model\.vocab/,
  ],
  [
    "an unknown pre-tokenizer",
    changed(bpeFiles(), (t) => {
      t.pre_tokenizer = { type: "ByteLevels" };
    }),
    /^tokenizer\.json: /,
  ],
  [
    "no unknown token",
    changed(wordLevelFiles(), (t) => {
      t.model.unk_token = null;
    }),
    /^tokenizer\.json: .*would vanish/,
  ],
  [
    "no unknown token in a BPE model of characters, though tokenizer_config.json names one",
    withFile(
      changed(bpeFiles(), (t) => {
        t.pre_tokenizer = { type: "Whitespace" };
      }),
      "tokenizer_config.json",
      JSON.stringify({ unk_token: "<|endoftext|>", chat_template: QWEN_TEMPLATE }),
    ),
    /^tokenizer\.json: .*would vanish/,
  ],
  [
    "no template",
    withFile(bpeFiles(), "tokenizer_config.json", "{}"),
    /no chat_template here and no chat_template\.jinja/,
  ],
  [
    "a template that is not Jinja",
    withFile(bpeFiles(), "chat_template.jinja", "{% if %}"),
    /^chat_template\.jinja: .*cannot be parsed as Jinja/,
  ],
  [
    "a template that fails",
    bpeFiles("{{ raise_exception('no users') }}"),
    /^tokenizer_config\.json: .*failed on messages with the roles user.*no users/,
  ],
  [
    "a template without an end of turn",
    bpeFiles("{% for m in messages %}{{ m.content }} {% endfor %}"),
    /^tokenizer_config\.json: chat_template ends an assistant's turn with " "/,
  ],
  [
    "a template without an end of turn in a file of its own",
    withFile(bpeFiles(), "chat_template.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}"),
    /^chat_template\.jinja: chat_template ends an assistant's turn with " "/,
  ],
])("a tokenizer with %s is refused as damaged", (_, files, message) => {
  expect(() => openTokenizer(files)).toThrow(message);
  try {
    openTokenizer(files);
  } catch (error) {
    expect(isMgrpoError(error, "tokenizer-damaged")).toBe(true);
  }
});

test("a Unigram model with byte_fallback is refused: the library would encode text outside the vocabulary as the unknown token", () => {
  const unigram = (byte_fallback: boolean) =>
    changed(bpeFiles(), (t) => {
      const vocab = ["<unk>", "<0x3F>", ...t.added_tokens.map(({ content }: { content: string }) => content)];
      t.model = { type: "Unigram", unk_id: 0, vocab: vocab.map((piece: string) => [piece, 0]), byte_fallback };
    });
  expect(openTokenizer(unigram(false)).encodeText("?")).toEqual([0]);
  expect(() => openTokenizer(unigram(true))).toThrow(
    "tokenizer.json: a Unigram model with byte_fallback is not supported",
  );
});
