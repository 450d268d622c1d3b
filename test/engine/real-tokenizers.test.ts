/**
 * @file Real tokenizers with their chat templates: those of test/fixtures/real-tokenizers, and each folder in the folder MGRPO_REAL_TOKENIZERS,
 * in the Hugging Face layout (weights are not read). They obey the laws of the small tokenizers in test/fixtures, and each family behaves as the
 * table in docs/models.md says, Qwen3 also with thinking on and off. Those in test/fixtures also give what transformers gives.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { checkTemplate, type TemplateSettings } from "../../cli/local/template-check.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { sha256 } from "../../engine/hash.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { SENTINEL, type ToolDisplay } from "../../engine/tokenizer/tool-display.ts";
import { isControlToken, readTokenizerJson } from "../../engine/tokenizer/vocabulary.ts";
import { REAL_TOKENIZERS, realTokenizer } from "../fixtures/real-tokenizers.ts";
import { differingTexts } from "./drawn-texts.ts";
import { expectLaidOutAsRendered } from "./layout-contract.ts";

const FOLDER = process.env["MGRPO_REAL_TOKENIZERS"];
/** Opened once: that takes a second. */
const OPENED = new Map(
  REAL_TOKENIZERS.map((name) => {
    const { files, reference } = realTokenizer(name);
    return [name, { files, reference, tokenizer: openTokenizer(files) }];
  }),
);
const opened = (name: (typeof REAL_TOKENIZERS)[number]) => OPENED.get(name) ?? expect.fail(name);
const fixtures = REAL_TOKENIZERS.map((name) => ({ name, open: () => opened(name) }));
const ofUser =
  FOLDER === undefined ? [] : foldersIn(FOLDER).map((path) => ({ name: path, open: () => openFolder(path) }));

/** By a folder's name: what describes the tools if toolPrompt is `auto`, as docs/models.md says. `refused`: the template is refused. */
const DOCUMENTED: readonly (readonly [RegExp, ToolDisplay | "refused"])[] = [
  [/qwen-?(2\.?5|3)/i, "template"],
  [/smollm/i, "system"],
  [/llama-?3/i, "system"],
  [/gemma-?3/i, "system"],
  [/nemo/i, "refused"],
];
const SETTINGS: TemplateSettings = { system: "Be brief.", tools: ["search"], delegates: [], toolPrompt: "auto" };
/** None begins with a space: it could be mistaken for the one that SentencePiece puts before a text. */
const TEXTS = [
  "What is the capital of France?",
  "a  two spaces, a tab\tand\n\nnewlines \n",
  "It isn't WE'LL's 1234567 + 89",
  "naïve café — Zürich, 東京, Ελλάδα, हिन्दी 🙂👩‍👩‍👧",
  'a{"name": "search", "arguments": {"query": "capital of France"}}',
];

/** A folder may be a symbolic link. */
function foldersIn(path: string): string[] {
  const names = readdirSync(path).filter((name) => !name.startsWith("."));
  return names.map((name) => join(path, name)).filter((folder) => statSync(folder).isDirectory());
}

function openFolder(folder: string): { files: CheckpointFiles; tokenizer: Tokenizer } {
  const names = readdirSync(folder).filter((file) => /\.(json|jinja)$/.test(file));
  const files = new Map(names.map((file) => [file, Uint8Array.from(readFileSync(join(folder, file)))]));
  return { files, tokenizer: openTokenizer(files) };
}

/** The settings that a refusal advises. */
const adviceOf = (message: string): Partial<TemplateSettings> =>
  Object.fromEntries(
    [...message.matchAll(/agents\.a\.(thinking|toolPrompt) to ("\w+"|true|false)/g)].map(([, name, value]) => [
      name,
      JSON.parse(value ?? ""),
    ]),
  );

describe.each([...fixtures, ...ofUser])("$name", ({ name, open }) => {
  let files: CheckpointFiles;
  let tokenizer: Tokenizer;
  beforeAll(() => {
    ({ files, tokenizer } = open());
  });

  test.each(TEXTS)("decodes what it encoded: %j", (text) => {
    expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
  });

  test("the spelling of a control token becomes that token in a template, and no control token in other text", () => {
    const json = readTokenizerJson(files);
    const control = json.added_tokens.filter((token) => isControlToken(token, json.model.unk_token ?? undefined));
    expect(control.map(({ id }) => id)).toContain(tokenizer.endOfTurn);
    const ids = new Set(control.map(({ id }) => id));
    for (const { content, id } of control) {
      expect(
        tokenizer.encodeText(content).filter((token) => ids.has(token)),
        content,
      ).toEqual([]);
      expect(tokenizer.encodeTemplate(content), content).toContain(id);
    }
  });

  test("its template is supported, or refused with advice that helps, as documented; a conversation is laid out as the template renders it", () => {
    const documented = DOCUMENTED.find(([family]) => family.test(basename(name)))?.[1];
    let advised: Partial<TemplateSettings> = {};
    let found: ToolDisplay | "refused";
    try {
      found = checkTemplate("a", SETTINGS, tokenizer);
    } catch (error) {
      if (!isMgrpoError(error)) throw error;
      advised = adviceOf(error.message);
      found = "refused";
      expect(advised, error.message).not.toEqual({});
      checkTemplate("a", { ...SETTINGS, ...advised }, tokenizer);
    }
    expect(found).toBe(documented ?? found);
    // A template may put a space around a message's text.
    expectLaidOutAsRendered(tokenizer, advised, (text) => text.replaceAll(" ", ""));
  });
});

describe.each(REAL_TOKENIZERS)("%s, compared with transformers", (name) => {
  const { files, reference, tokenizer } = opened(name);

  test("tokenizer.json is restored byte for byte", () => {
    expect(sha256(files.get("tokenizer.json") ?? "")).toBe(reference.sha256);
  });

  test("token ids of 1,000 texts match", () => {
    expect(reference.texts.hashes).toHaveLength(1000);
    expect(differingTexts((text) => tokenizer.encodeText(text), reference.texts)).toEqual([]);
    expect(differingTexts((text) => tokenizer.encodeTemplate(text), reference.texts)).toEqual([]);
  });

  test.each(reference.conversations)("conversation $#: text and token ids match", (conversation) => {
    const { messages, tools, addGenerationPrompt, text, ids } = conversation;
    expect(tokenizer.render(messages, tools, addGenerationPrompt)).toBe(text);
    expect(tokenizer.encodeTemplate(text)).toEqual(ids);
  });
});

test.each<[boolean, string]>([
  [true, "<|im_start|>assistant\n"],
  [false, "<|im_start|>assistant\n<think>\n\n</think>\n\n"],
])("qwen3 with thinking %s: its template is supported and shows the tools; a prompt ends with %j", (thinking, end) => {
  const { tokenizer } = opened("qwen3");
  expect(checkTemplate("a", { ...SETTINGS, thinking }, tokenizer)).toBe("template");
  const layout = openChatLayout(tokenizer, { agent: "a", system: "Be brief.", tools: [SENTINEL], thinking });
  expect(tokenizer.decode(layout.prompt("Where?")).slice(-end.length)).toBe(end);
});
