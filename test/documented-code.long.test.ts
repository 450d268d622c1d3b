/**
 * @file Every block of TypeScript in docs/ and engine/README.md compiles as printed, with the settings of a new project, except that a name
 * may be unused. The line before a block may name its file; a block that is only an object literal, or one of its properties, is checked against
 * its type.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as z from "zod";

const ROOT = resolve(import.meta.dirname, "..");
const PAGES = readdirSync(join(ROOT, "docs")).flatMap((name) => (name.endsWith(".md") ? [`docs/${name}`] : []));
const folder = mkdtempSync(join(tmpdir(), "documented-code-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the code of the pages assumes: the reader's app, and the system messages of agents. */
const APP = `
import type { LanguageModel } from "ai";
type Team = Readonly<Record<"planner" | "searcher", LanguageModel>>;
export declare function answerQuestion(prompt: string, team: Team, signal: AbortSignal): Promise<string | undefined>;
`;
const MESSAGES = 'const [PLANNER, SEARCHER] = ["Plan.", "Search."];';

/** The code as a module: an object literal, or one of its properties, becomes its default export. */
function moduleOf(code: string): string {
  const check = (literal: string, type: string) =>
    `import type { Demonstration, RecipeConfig } from "mgrpo/recipe";\n${MESSAGES}\nexport default ${literal} satisfies ${type};`;
  if (code.startsWith("agents: {")) return check(`{ ${code} }`, "Partial<RecipeConfig>");
  if (code.startsWith("{ prompt: ")) return check(code, "Demonstration");
  return code;
}

/** Writes the blocks of a page into a folder of their own. Returns how many there are. */
function extract(page: string): number {
  const text = readFileSync(join(ROOT, page), "utf8");
  const own = join(folder, page.replaceAll("/", "-"));
  mkdirSync(own);
  writeFileSync(join(own, "app.ts"), APP);
  const blocks = [...text.matchAll(/(.*)\n\n```ts\n([\s\S]*?)\n```/g)];
  for (const [index, [, before = "", code = ""]] of blocks.entries()) {
    const [, name = `block-${index + 1}.ts`] = /`([\w.-]+\.ts)`:?$/.exec(before) ?? [];
    writeFileSync(join(own, basename(name)), moduleOf(code), { flag: "wx" });
  }
  expect(blocks.length, page).toBe(text.split("```ts\n").length - 1);
  return blocks.length;
}

test("the TypeScript in the docs compiles as printed", () => {
  const Config = z.object({ compilerOptions: z.record(z.string(), z.unknown()) });
  const readConfig = (path: string) => Config.parse(JSON.parse(readFileSync(join(ROOT, path), "utf8"))).compilerOptions;
  const Paths = z.record(z.string(), z.array(z.string()));
  const paths = Object.entries(Paths.parse(readConfig("tsconfig.json")["paths"])).map(
    ([name, targets]) => [name, targets.map((target) => join(ROOT, target))] as const,
  );
  const compilerOptions = {
    ...readConfig("create/template/tsconfig.json"),
    noUnusedLocals: false,
    paths: Object.fromEntries(paths),
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "junction");
  const counts = ["engine/README.md", ...PAGES].map(extract);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(12);
  const tsc = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", "."], { cwd: folder, encoding: "utf8" });
  expect({ status: tsc.status, stdout: tsc.stdout }).toEqual({ status: 0, stdout: "" });
});
