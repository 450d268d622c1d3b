/** @file Chat templates are checked before a run, turn by turn and with a tool; a note says if the system message describes the tools by default. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkTemplate, noteOnTools, type TemplateSettings } from "../../cli/local/template-check.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";

const check = (settings: TemplateSettings, files: CheckpointFiles) =>
  checkTemplate("a", settings, openTokenizer(files));
const searcher: TemplateSettings = { system: "", tools: ["search"], delegates: [], toolPrompt: "auto" };
const alone: TemplateSettings = { ...searcher, tools: [] };

test("the check returns which part of the prompt describes the tools", () => {
  expect(check(searcher, bpeFiles(QWEN_TEMPLATE))).toBe("template");
  expect(check({ ...alone, delegates: ["b"] }, bpeFiles(TERSE_TEMPLATE))).toBe("system");
  expect(check(alone, bpeFiles(TERSE_TEMPLATE))).toBe("none");
});

test("a note says that the system message describes the tools, if the config leaves the choice to the program", () => {
  const notes: string[] = [];
  const note = (message: string) => notes.push(message);
  noteOnTools("a", { toolPrompt: "auto" }, "system", note);
  expect(notes).toEqual([
    expect.stringMatching(
      /^agents\.a: its chat template does not show tools, .*set agents\.a\.toolPrompt to "none"\)$/,
    ),
  ]);
  noteOnTools("a", { toolPrompt: "system" }, "system", note);
  noteOnTools("a", { toolPrompt: "auto" }, "template", note);
  noteOnTools("a", { toolPrompt: "auto" }, "none", note);
  expect(notes).toHaveLength(1);
});

test("for an agent with tools, a template that rewrites a message only once three others follow it is refused", () => {
  // Drops a tool response that three messages follow.
  const forgetful = QWEN_TEMPLATE.replace(
    "{{- message.content }}",
    "{{- message.content if loop.index0 > messages|length - 4 else '' }}",
  );
  expect(() => check(searcher, bpeFiles(forgetful))).toThrow(/agent 'a': its chat_template rewrites earlier/);
  expect(check(alone, bpeFiles(forgetful))).toBe("none");
});

/** Real templates of Apache-2.0 models, on small tokenizers with the same markers: docs/models.md. */
const real = (name: string) => readFileSync(join(import.meta.dirname, `../fixtures/templates/${name}.jinja`), "utf8");
const mistral = (template: string) => {
  const read = (name: string) =>
    Uint8Array.from(readFileSync(join(import.meta.dirname, "../fixtures/tokenizers/mistral", name)));
  const files = ["tokenizer.json", "tokenizer_config.json"].map((name) => [name, read(name)] as const);
  return new Map([...files, ["chat_template.jinja", new TextEncoder().encode(template)]]);
};
const withSystem: TemplateSettings = { ...searcher, system: "Be brief." };

test.each<[string, Partial<TemplateSettings>, string]>([
  ["qwen2.5", {}, "template"],
  ["qwen3", {}, "template"],
  ["qwen3", { thinking: true }, "template"],
  ["qwen3", { thinking: false }, "template"],
  ["smollm2", {}, "system"],
])("%s %j is supported; its tools are described by: %s", (name, settings, display) => {
  expect(check({ ...withSystem, ...settings }, bpeFiles(real(name)))).toBe(display);
});

test("Mistral's template, which moves the system message to the last user message, is refused with the setting that helps", () => {
  const files = mistral(real("mistral-nemo"));
  expect(() => check(withSystem, files)).toThrow(
    /^agent 'a': its chat_template rewrites earlier messages .*; or set agents\.a\.toolPrompt to "user"$/,
  );
  expect(check({ ...withSystem, toolPrompt: "user" }, files)).toBe("user");
  expect(check({ ...searcher, toolPrompt: "none" }, files)).toBe("none");
});

test("a template that rewrites earlier messages unless thinking is false is refused, with the advice to set thinking to false", () => {
  const rewriting = TERSE_TEMPLATE.replace(
    "{{- '<|im_start|>' + message.role",
    "{{- ('' if loop.last or enable_thinking is defined and not enable_thinking else 'past ') + '<|im_start|>' + message.role",
  );
  expect(() => check(searcher, bpeFiles(rewriting))).toThrow(/; or set agents\.a\.thinking to false$/);
});
