/** @file `mgrpo doctor --model` on a folder: what describes the tools, a tokenizer that may be another model's, and LoRA settings. */
import { expect, test } from "vitest";
import { readPolicyBase } from "../../cli/local/base-models.ts";
import { checkModel } from "../../cli/local/model-checks.ts";
import { TINY, tinyCheckpoint } from "../engine/tiny.ts";
import { bpeFiles, QWEN_TEMPLATE, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";
import { adapterOf, configOf, modelFolders, ROOMY } from "./model-folders.ts";

const { write } = modelFolders();

test("doctor says why the system message describes the tools, unless a setting asks for it", async () => {
  const found = async (template: string, settings: readonly string[] = []) => {
    const model = write(`described-${template.length}`, new Map([...tinyCheckpoint(ROOMY), ...bpeFiles(template)]));
    const checks = await checkModel(model, ["limits.contextTokens=16", ...settings]);
    return checks.find(({ name }) => name === "template")?.found;
  };
  expect(await found(QWEN_TEMPLATE)).toContain("; it shows the tools itself; ");
  expect(await found(TERSE_TEMPLATE)).toContain("the system message describes the tools, since the template does ");
  const chosen = await found(QWEN_TEMPLATE, ["toolPrompt=system"]);
  expect(chosen).toContain("; the system message describes the tools; ");
});

test("a tokenizer that leaves much of the embedding unused may be another model's: doctor and training say so", async () => {
  const model = write("sparse", new Map([...tinyCheckpoint({ ...TINY, vocabulary: 500 }), ...bpeFiles()]));
  const found = "tokenizer.json has 364 tokens, and the embedding 500 rows";
  const checks = await checkModel(model, ["limits.contextTokens=16"]);
  const advice = "check that it is the model's own";
  expect(checks.find(({ name }) => name === "tokenizer")).toEqual({
    name: "tokenizer",
    state: "missing",
    found,
    advice,
  });
  const notes: string[] = [];
  await readPolicyBase(configOf(model), "main", (note) => notes.push(note));
  expect(notes).toContain(`agents.main: ${found}: ${advice}`);
  const full = write("full", new Map([...tinyCheckpoint(ROOMY), ...bpeFiles()]));
  const names = (await checkModel(full, ["limits.contextTokens=16"])).map(({ name }) => name);
  expect(names).not.toContain("tokenizer");
});

test("doctor refuses LoRA settings other than those of the adapter in the folder", async () => {
  write("roomy", new Map([...tinyCheckpoint(ROOMY), ...bpeFiles()]));
  const folder = write("adapters/four", adapterOf("../../roomy"));
  const [model] = await checkModel(folder, ["limits.contextTokens=16"]);
  expect(model?.found).toMatch(/ with its adapter; trained: an adapter of rank 3$/);
  await expect(checkModel(folder, ["limits.contextTokens=16", "lora.rank=4"])).rejects.toThrow(
    /^agents\.<name>\.lora: .*four is an adapter with {"rank":3,.*: write the same$/,
  );
});

test("doctor predicts the memory of sampling alone for a frozen agent, and refuses settings that a run refuses or whose memory it does not know", async () => {
  const folder = write("frozen", new Map([...tinyCheckpoint(ROOMY), ...bpeFiles()]));
  const partsWith = async (...settings: string[]) => {
    const checks = await checkModel(folder, ["limits.contextTokens=16", ...settings]);
    return [checks[0]?.found, checks.map(({ name }) => name).filter((name) => name.startsWith("  "))];
  };
  expect(await partsWith("trained=false")).toEqual([
    expect.stringMatching(/; frozen$/),
    ["  program", "  weights", "  cache"],
  ]);
  expect(await partsWith()).toEqual([
    expect.stringMatching(/; trained: all weights$/),
    expect.arrayContaining(["  optimizer", "  activations", "  saving"]),
  ]);
  await expect(checkModel(folder, ["policy=eager"])).rejects.toThrow(
    "--set policy=eager: only the memory of policy 'compiled' is known: leave it out",
  );
  await expect(checkModel(folder, ["engine.precision=bf16"])).rejects.toThrow(/bf16 needs engine\.provider cuda/);
});
