/** @file `mgrpo import-traces`: writes a file that `mgrpo sft` reads, reports what happened to every model call, and prints no content. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as z from "zod";
import { openDemonstrations } from "../../cli/sft/sources.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { openRecipe } from "../../recipes/registry.ts";
import type { JsonValue } from "../../sft/traces/json.ts";
import { chat, file, SYSTEM, span, spans, TRACES, textMessage } from "../fixtures/traces.ts";
import { printed } from "./printed.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-traces-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const trace = (name: string) => join(TRACES, name);

test("the file has demonstrations for an agent, and the summary has no content", async () => {
  const to = join(folder, "new", "demos.jsonl");
  const text = await printed(
    "import-traces",
    trace("current.jsonl"),
    trace("openllmetry.jsonl"),
    trace("no-content.jsonl"),
    "--agent",
    "searcher",
    "--to",
    to,
  );
  const lines = text.replaceAll(`${TRACES}/`, "").replaceAll(to, "demos.jsonl").trimEnd().split("\n");
  expect(lines).toEqual([
    "demos.jsonl  1 conversation: searcher 1",
    "  from 5 model calls (2 contained in another) in 3 files",
    "  2 other spans",
    "  skipped: 2",
    "    1  it encloses other model calls, which count instead (current.jsonl:3)",
    "    1  no content: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, to span_only or, for older instrumentations, to true (no-content.jsonl:1)",
    expect.stringMatching(/mgrpo.* sft <recipe> --demonstrations demos.jsonl --agent searcher --to <folder>/),
  ]);
  const recipe = await openRecipe("atlas");
  const sourceOf = (...set: string[]) => {
    const config = resolveConfig(recipe, { run: "sft", seed: 1, arm: "mgrpo", set, recipe: "atlas" });
    return openDemonstrations(recipe, config, { demonstrations: to });
  };
  const limits = { turns: 3, turnTokens: 64, contextTokens: 512, calls: 2, responseCharacters: 100 };
  const parameters = new Map([["search", z.strictObject({ query: z.string() })]]);
  const config = { system: SYSTEM, limits };
  const [example] = (await sourceOf())({ agent: "searcher", config, toolbox: { parameters } }, "");
  expect(example && "demonstration" in example && example.demonstration.turns).toHaveLength(2);
  // The agent of an app has the system message and the tools that the app gives it.
  const ofApp = { agent: "searcher", config: { system: "", limits }, toolbox: { parameters: new Map() } };
  const [line] = (await sourceOf("runner=recipe"))(ofApp, "");
  expect(line && "line" in line && line.line).toMatchObject({ system: SYSTEM, tools: [{ name: "search" }] });
});

test("nothing is overwritten, and nothing is written if no conversation can be taken", async () => {
  const to = join(folder, "none.jsonl");
  await expect(printed("import-traces", trace("no-content.jsonl"), "--to", to)).rejects.toThrow(
    /^none of 1 model calls can be taken; 1: no content: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.*no-content.jsonl:1\)$/,
  );
  expect(() => readFileSync(to)).toThrow(/ENOENT/);
  writeFileSync(to, "kept");
  await expect(printed("import-traces", trace("openai.jsonl"), "--to", to)).rejects.toThrow(/exists: name a file that/);
  expect(readFileSync(to, "utf8")).toBe("kept");
});

test.each<[string, JsonValue[], RegExp]>([
  ["beside a model call", [span({ attributes: { "gen_ai.operation.name": "chat" } })], /^none of 1 model calls can be/],
  ["alone", [], /^no model calls among 1 span can be taken$/],
])("with a span of another kind %s, the error says that nothing can be taken", async (_where, calls, message) => {
  const input = join(folder, "other.jsonl");
  writeFileSync(input, file(spans(...calls, span({ id: "2" }))).bytes);
  await expect(printed("import-traces", input, "--to", join(folder, "nothing.jsonl"))).rejects.toThrow(message);
});

test.each([
  [["--score", "feedback"], /--score <name> and --min-score <x> go together/],
  [["--where", "feedback"], /--where feedback: write <attribute>=<value>/],
])("options that are incomplete are refused: %j", async (options, message) => {
  const to = join(folder, "refused.jsonl");
  await expect(printed("import-traces", trace("openai.jsonl"), "--to", to, ...options)).rejects.toThrow(message);
});

test("options filter the model calls; several system messages are pointed out", async () => {
  const call = (id: string, system: string, model: string) =>
    span({
      id,
      trace: id,
      attributes: chat([textMessage("system", system), textMessage("user", "q")], [textMessage("assistant", id)], {
        model,
        feedback: 0.5,
      }),
    });
  const { bytes } = file(spans(call("1", "one", "a=b"), call("2", "two", "a=b"), call("3", "three", "c")));
  const input = join(folder, "own.jsonl");
  writeFileSync(input, bytes);
  const run = (to: string, ...options: string[]) =>
    printed(
      "import-traces",
      input,
      "--to",
      join(folder, to),
      "--where",
      "model=a=b",
      "--score",
      "feedback",
      "--min-score",
      "0.5",
      ...options,
    );
  const text = await run("filtered.jsonl");
  expect(text).toContain("2 conversations: no agent named 2");
  expect(text).toContain("1  model is not a=b");
  expect(text).toContain("2 different system messages, and an agent has one: --no-system leaves them out");
  expect(text).toContain("--agent <name>");
  const lines = readFileSync(join(folder, "filtered.jsonl"), "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).messages.length)).toEqual([3, 3]);
  expect(await run("plain.jsonl", "--no-system", "--as", "main")).toContain("2 conversations: main 2\n");
});

test.each([
  ["nowhere.jsonl", /^nowhere.jsonl: no such file$/],
  [TRACES, /: a folder: name its files$/],
  [join(TRACES, "openai.jsonl", "x"), /x: cannot be read \(ENOTDIR: .*\)$/],
])("the error for an input that cannot be read says why: %s", async (name, message) => {
  await expect(printed("import-traces", name, "--to", join(folder, "x.jsonl"))).rejects.toThrow(message);
});

test("the error names a file that cannot be written, and says what to do", async () => {
  // Even root cannot write below a file.
  writeFileSync(join(folder, "file"), "");
  const to = join(folder, "file", "x.jsonl");
  await expect(printed("import-traces", trace("openai.jsonl"), "--to", to)).rejects.toMatchObject({
    code: "config-invalid",
    message: `--to ${to} cannot be written: name a file that you can write to`,
  });
});
