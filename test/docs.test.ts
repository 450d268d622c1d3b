/**
 * @file The documentation is consistent: generated pages are up to date, links and their anchors resolve, error codes, environment
 * variables and a missing runtime are explained, named files and scripts exist. README.md stays short.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { expect, test } from "vitest";
import { describe } from "../cli/terminal/fail.ts";
import { generatedDocs } from "../docs/make/generated.ts";
import { sourceFolders, sourcesOf } from "./sources.ts";

const ROOT = resolve(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const FOLDERS =
  "core|engine|sft|ui|adapters|functions|gpu-workers|recipes|cli|bench|stacks|examples|exports|test|create|results|docs";

const pagesIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name).replaceAll(sep, "/"))
    .filter((path) => path.endsWith(".md") && !path.includes("/node_modules/"));
const DOCUMENTS = ["README.md", "CONTRIBUTING.md", ...FOLDERS.split("|").flatMap(pagesIn)];

test.each([...generatedDocs()])("docs/%s is what `npm run docs` writes", (name, text) => {
  expect(read(`docs/${name}`)).toBe(text);
});

test("docs/configuration.md escapes a < in a description, except in code", () => {
  const text = generatedDocs().get("configuration.md");
  expect(text).toContain("hf:&lt;owner>/&lt;name>");
  expect(text).toContain("`mgrpo eval <run>`");
});

test("docs/configuration.md has the settings of a list, of a named member, and of each form that a setting may take", () => {
  const rows = generatedDocs()
    .get("configuration.md")
    ?.match(/^\| `[^`]+`/gm);
  const settings = ["curriculum[].levels", "runner.url", "tools.visit.maxBytes", "tools.search.keyVariable"];
  const servers = ["command", "url", "seconds"].map((name) => `tools.mcp.<name>.${name}`);
  expect(rows).toEqual(expect.arrayContaining([...settings, ...servers].map((path) => `| \`${path}\``)));
});

test("docs/configuration.md marks as required what every form of a setting requires, and nothing that only one form has", () => {
  const text = generatedDocs().get("configuration.md") ?? "";
  const required = [...text.matchAll(/^\| `([^`]+)` \| .* \| required \| .*$/gm)].map(([, path]) => path);
  expect(required).toEqual(expect.arrayContaining(["runner.url", "judge.model.provider", "judge.model.model"]));
  for (const path of ["tools.search.url", "tools.mcp.<name>.url", "tools.mcp.<name>.command", "curriculum[].from"])
    expect(required).not.toContain(path);
});

test("docs/configuration.md has as a default, in code, only what --set takes: JSON", () => {
  const rows = [
    ...(generatedDocs().get("configuration.md") ?? "").matchAll(/^\| `[^`]+` \|.*?(?<!\\)\| (.*?) (?<!\\)\|/gm),
  ];
  const defaults = rows.flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code));
  expect(defaults.length).toBeGreaterThan(100);
  for (const text of defaults) expect(() => JSON.parse(text), text).not.toThrow();
});

test.each(DOCUMENTS)("%s: targets of relative links and pictures exist", (document) => {
  const targets = [...read(document).matchAll(/\]\(([^)#\s]+)(#[^)\s]*)?\)/g)].map(([, target = ""]) => target);
  const local = targets.filter((target) => !/^[a-z]+:/.test(target));
  const missing = local.filter((target) => !existsSync(join(ROOT, dirname(document), target)));
  expect(missing.map((target) => relative(ROOT, join(ROOT, dirname(document), target)))).toEqual([]);
});

/** The anchors that GitHub gives the headings of a document. */
function anchorsOf(document: string): Set<string> {
  const headings = [...read(document).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  const textOf = (heading: string) => heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").trim();
  const idOf = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "");
  return new Set(headings.map((heading) => idOf(textOf(heading)).replaceAll(" ", "-")));
}

test.each(DOCUMENTS)("%s: anchors of links are headings", (document) => {
  const links = [...read(document).matchAll(/\]\(([^)#\s:]*)#([^)\s]+)\)/g)];
  const missing = links.flatMap(([link, target = "", anchor = ""]) => {
    const page = target === "" ? document : join(dirname(document), target);
    return page.endsWith(".md") && !anchorsOf(page).has(anchor) ? [link] : [];
  });
  expect(missing).toEqual([]);
});

test.each(DOCUMENTS)("%s: named files and folders of the repository exist", (document) => {
  const named = [...read(document).matchAll(new RegExp(`\\x60((?:${FOLDERS})/[\\w./-]*)\\x60`, "g"))];
  expect(named.flatMap(([, path = ""]) => (existsSync(join(ROOT, path)) ? [] : [path]))).toEqual([]);
});

test("docs/troubleshooting.md explains every error code, and no other", () => {
  const source = read("core/errors.ts");
  const union = source.slice(source.indexOf("export type ErrorCode"), source.indexOf(";", source.indexOf("ErrorCode")));
  const codes = [...union.matchAll(/"([a-z-]+)"/g)].map(([, code]) => code);
  const explained = [...read("docs/troubleshooting.md").matchAll(/^### ([a-z-]+)$/gm)].map(([, code]) => code);
  expect(explained.toSorted()).toEqual(codes.toSorted());
});

test("docs/troubleshooting.md names the missing runtime in the words of the error, with its remedy", () => {
  const missing = Object.assign(new Error("Cannot find package 'onnxruntime-node'"), { code: "ERR_MODULE_NOT_FOUND" });
  const [symptom = "", remedy = ""] = describe(missing).split(/: .*: /);
  expect(symptom).toBe("onnxruntime-node is not installed");
  const entries = read("docs/troubleshooting.md").split("\n\n");
  expect(entries.find((entry) => entry.startsWith(`**\`${symptom}\`.**`))).toContain(`\`${remedy}\``);
});

test("every environment variable of mgrpo is in the docs, except those that one process sets for another", () => {
  const between = ["MGRPO_PARENT", "MGRPO_RELEASE"];
  const pages = DOCUMENTS.map(read).join("\n");
  const sources = sourceFolders()
    .filter((folder) => folder !== "test")
    .flatMap(sourcesOf);
  const named = sources.flatMap((file) => readFileSync(file, "utf8").match(/\bMGRPO_[A-Z]+(?:_[A-Z]+)*\b/g) ?? []);
  expect([...new Set(named)].filter((name) => !between.includes(name) && !pages.includes(name))).toEqual([]);
});

test.each(DOCUMENTS)("%s: `npm run` scripts exist", (document) => {
  const scripts = Object.keys((JSON.parse(read("package.json")) as { scripts: Record<string, string> }).scripts);
  const named = [...read(document).matchAll(/npm run (?:-s )?([a-z][a-z:-]*)/g)].map(([, name = ""]) => name);
  expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
});

test("README.md has at most 160 lines", () => {
  expect(read("README.md").split("\n").length - 1).toBeLessThanOrEqual(160);
});
