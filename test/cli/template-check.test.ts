/** @file Chat templates before a run: rendered turn by turn, with a tool, and a line where the program decides how tools are shown. */
import { expect, test } from "vitest";
import { checkTemplate, noteOnTools, type TemplateSettings } from "../../cli/local/template-check.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";

const searcher: TemplateSettings = { system: "", tools: ["search"], delegates: [], toolPrompt: "auto" };
const alone: TemplateSettings = { ...searcher, tools: [] };

test("says which part describes the tools", () => {
  expect(checkTemplate("a", { ...searcher, tools: ["search"] }, bpeFiles(QWEN_TEMPLATE))).toBe("template");
  expect(checkTemplate("a", { ...searcher, tools: [], delegates: ["b"] }, bpeFiles(TERSE_TEMPLATE))).toBe("system");
  expect(checkTemplate("a", { ...alone }, bpeFiles(TERSE_TEMPLATE))).toBe("none");
});

test("notes a description that nobody asked for", () => {
  const notes: string[] = [];
  const note = (message: string) => notes.push(message);
  noteOnTools("a", { toolPrompt: "auto" }, "system", note);
  expect(notes).toEqual([
    expect.stringMatching(/^agents\.a: its chat template shows no tools .*toolPrompt: "none"\)$/),
  ]);
  noteOnTools("a", { toolPrompt: "system" }, "system", note);
  noteOnTools("a", { toolPrompt: "auto" }, "template", note);
  noteOnTools("a", { toolPrompt: "auto" }, "none", note);
  expect(notes).toHaveLength(1);
});

test("finds a template that rewrites an earlier turn, where the first turns still fit", () => {
  const settings = { ...searcher, tools: ["search"] };
  // Tool responses other than the last are dropped from the third message on.
  const forgetful = QWEN_TEMPLATE.replace(
    "{{- message.content }}",
    "{{- message.content if loop.index0 > messages|length - 4 else '' }}",
  );
  expect(() => checkTemplate("a", settings, bpeFiles(forgetful))).toThrow(
    /agent 'a': its chat_template rewrites earlier/,
  );
  expect(checkTemplate("a", { ...settings, tools: [] }, bpeFiles(forgetful))).toBe("none");
});
