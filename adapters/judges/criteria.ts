/**
 * @file The default judge criteria: the Markdown in criteria/. A recipe copies them into its config, because a
 * function's bundle contains only code.
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
