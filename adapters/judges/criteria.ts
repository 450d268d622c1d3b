/**
 * @file Judge criteria: the default ones, which are the Markdown in criteria/, and those made from an official prompt. A recipe copies the
 * default ones into its config, because a function's bundle contains only code.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { JudgeConfig } from "../../core/contracts/judge.ts";

/** For `judge.criteria` of a recipe's config. */
export function judgeCriteria(): NonNullable<JudgeConfig["criteria"]> {
  return { correct: read("correct"), expert: read("expert") };
}

function read(name: string): string {
  return readFileSync(fileURLToPath(new URL(`criteria/${name}.md`, import.meta.url)), "utf8");
}

/** Names fields in place of the placeholders of a benchmark's official prompt: their values are sent separately. */
export const withFieldNames = (prompt: string): string =>
  prompt
    .replaceAll("{question}", "(the field `question`)")
    .replace(/\{(?:correct_answer|reference|answer)\}/g, "(the field `reference`)")
    .replace(/\{(?:response|prediction|pred)\}/g, "(the field `answer`)");
