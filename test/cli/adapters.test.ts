/**
 * @file LoRA adapters: which one an agent starts from, and how one is opened with its base model and exported as a PEFT folder or merged. An
 * exported adapter opens only on the base model that it was trained on.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { baseLocation, withAdapter, withBaseModel } from "../../cli/local/adapters.ts";
import { exportedFiles } from "../../cli/local/export-form.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Manifest, Part } from "../../core/contracts/checkpoint.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { readAdapter, readAdapterConfig, writeAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { mergeAdapter } from "../../engine/checkpoint/merge.ts";
import { writeSafetensors } from "../../engine/checkpoint/safetensors.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { sha256 } from "../../engine/hash.ts";
import { readSafetensors } from "../engine/read-safetensors.ts";
import { LORA, TINY, tinyAdapter, tinyCheckpoint } from "../engine/tiny.ts";

const agent = (settings: object) => AgentConfig.parse({ model: "models/tiny", ...settings });
const BASE = ["config.json", "model.safetensors"];

function manifestOf(files: CheckpointFiles): Manifest {
  const parts = [...files].map(([name, file]): [string, Part] => {
    const bytes = wholeFile(file);
    return [name, { sha256: sha256(bytes), bytes: bytes.length }];
  });
  const nothing = { stats: null, seconds: null };
  return { run: "r", agent: "main", version: 3, trained: true, files: Object.fromEntries(parts), ...nothing };
}

test("an agent with lora starts from a fresh adapter that depends on the seed; one without lora starts from its base", () => {
  const base = tinyCheckpoint();
  const fresh = withAdapter("main", agent({ lora: LORA }), 1, base);
  expect([...fresh.keys()].filter((name) => !base.has(name))).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
  ]);
  expect(withAdapter("main", agent({ lora: LORA }), 1, base)).toEqual(fresh);
  expect(withAdapter("main", agent({ lora: LORA }), 2, base)).not.toEqual(fresh);
  expect(withAdapter("main", agent({}), 1, base)).toBe(base);
  expect(agent({ lora: {} }).lora).toMatchObject({ rank: 16, alpha: 32 });
});

test("a folder's own adapter is used if the LoRA settings are the same, or if there are none and the agent is frozen; anything else is refused", () => {
  const own = tinyAdapter();
  expect(withAdapter("main", agent({ lora: { ...LORA, targets: [...LORA.targets].reverse() } }), 1, own)).toBe(own);
  expect(withAdapter("main", agent({ trained: false }), 1, own)).toBe(own);
  expect(() => withAdapter("main", agent({}), 1, own)).toThrow(
    /agents.main.lora: models\/tiny is an adapter: write {"rank":3/,
  );
  expect(() => withAdapter("main", agent({ lora: { ...LORA, rank: 4 } }), 1, own)).toThrow(
    /adapter with {"rank":3,.*write the same/,
  );
});

test("lora is refused for a policy that trains no adapter, and so are repeated or unknown layers and unknown keys", () => {
  const config = (main: object) => ({ run: "r", recipe: "atlas", steps: 1, agents: { main: { model: "m", ...main } } });
  const refused = (main: object) => RunConfig.safeParse(config(main)).error?.message ?? "";
  expect(refused({ lora: {}, policy: "eager" })).toBe("");
  expect(refused({ lora: {}, policy: "recipe:random" })).toMatch(/policy 'recipe:random' does not take it/);
  expect(refused({ lora: { targets: ["v_proj", "v_proj"] } })).toMatch(/lists a layer twice/);
  expect(refused({ lora: { targets: ["lm_head"] } })).toMatch(/q_proj/);
  expect(refused({ lora: { dropout: 0.1 } })).toMatch(/dropout/);
});

test("an exported adapter names its base without copying it, and opens only on that base", async () => {
  const files = new Map([...tinyAdapter(), ["tokenizer.json", new Uint8Array([1])]]);
  const exported = exportedFiles(files, manifestOf(files), { merged: false, dtype: undefined });
  expect([...exported.keys()].sort()).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
    "base.json",
    "tokenizer.json",
  ]);
  const opened = await withBaseModel(exported, "checkpoints/main", async (base) => {
    expect(base).toBe(resolve("models/tiny"));
    return tinyCheckpoint();
  });
  for (const name of [...BASE, "adapter_model.safetensors"]) expect(opened.get(name), name).toEqual(files.get(name));
  const open = (base: CheckpointFiles) => withBaseModel(exported, "checkpoints/main", async () => base);
  await expect(open(tinyCheckpoint(TINY, 2))).rejects.toThrow(
    /checkpoints\/main is an adapter of another base model: model.safetensors in .*models\/tiny is not the file/,
  );
  await expect(open(new Map())).rejects.toThrow(/another base model: .*missing/);
  const malformed = new Map([...exported, ["base.json", new TextEncoder().encode("{}")]]);
  await expect(withBaseModel(malformed, "x", async () => tinyCheckpoint())).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: expect.stringMatching(/^x: base\.json: /),
  });
  await expect(open(tinyAdapter())).rejects.toThrow(
    /checkpoints\/main is an adapter of .*models\/tiny, which is itself an adapter/,
  );
  const withoutBase = JSON.stringify({ peft_type: "LORA", r: 1, lora_alpha: 1, target_modules: ["v_proj"] });
  const baseless = new Map([["adapter_config.json", new TextEncoder().encode(withoutBase)]]);
  const opening = withBaseModel(baseless, "x", async () => tinyCheckpoint());
  await expect(opening).rejects.toThrow(/base_model_name_or_path is missing/);
});

test("an adapter whose folder has a copy of its base's config.json opens with its base, and with the base's own config", async () => {
  const base = tinyCheckpoint();
  const adapter = [...tinyAdapter()].filter(([name]) => name.startsWith("adapter_"));
  const copied = new Map([...adapter, ["config.json", Buffer.from("{}")] as const]);
  const opened = await withBaseModel(copied, "x", async () => base);
  for (const name of BASE) expect(opened.get(name), name).toEqual(base.get(name));
  const whole = new Map([...copied, ["model.safetensors", new Uint8Array()] as const]);
  expect(await withBaseModel(whole, "x", async () => base)).toBe(whole);
});

test("an adapter's own chat template replaces its base's, whichever file it is in; without one, the base's is used", async () => {
  const base = new Map([...tinyCheckpoint(), ["chat_template.jinja", Buffer.from("base")]]);
  const adapter = [...tinyAdapter()].filter(([name]) => name.startsWith("adapter_"));
  const templateOf = async (name: string, content: string) => {
    const own: CheckpointFiles = new Map([...adapter, [name, Buffer.from(content)]]);
    return (await withBaseModel(own, "x", async () => base)).get("chat_template.jinja");
  };
  expect(await templateOf("chat_template.jinja", "own")).toEqual(Buffer.from("own"));
  expect(await templateOf("tokenizer_config.json", '{"chat_template":"own"}')).toBe(undefined);
  expect(await templateOf("tokenizer_config.json", "{}")).toEqual(Buffer.from("base"));
});

describe("an adapter names its base as a path, an S3 prefix or a hub model", () => {
  const adapter = (base: string, revision?: string) => ({ lora: LORA, base, revision });
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-adapter-"));
  mkdirSync(join(folder, "base"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each<[string, string, string | undefined]>([
    ["/models/tiny", "/models/tiny", undefined],
    ["s3://bucket/models/tiny", "s3://bucket/models/tiny", undefined],
    ["base", join(folder, "base"), undefined],
    ["test/cli", resolve("test/cli"), undefined],
    ["HuggingFaceTB/SmolLM2-135M", "hf:HuggingFaceTB/SmolLM2-135M@main", undefined],
    ["HuggingFaceTB/SmolLM2-135M", "hf:HuggingFaceTB/SmolLM2-135M@v1", "v1"],
    ["../nowhere/at/all", "../nowhere/at/all", undefined],
  ])("%s", (base, location, revision) => expect(baseLocation(folder, adapter(base, revision))).toBe(location));

  test("a relative base is recorded as an absolute one, a hub name as PEFT reads it", async () => {
    const files = new Map([...tinyAdapter()].filter(([name]) => name.startsWith("adapter_")));
    const withBase = (base: string) =>
      new Map([...files, ["adapter_config.json", new TextEncoder().encode(writeAdapterConfig(LORA, base))]]);
    const open = async (base: string) => {
      const opened = await withBaseModel(withBase(base), folder, async () => tinyCheckpoint());
      const { base: recorded, revision } = readAdapterConfig(opened) ?? {};
      return { recorded, revision, opened };
    };
    expect(await open("base")).toMatchObject({ recorded: join(folder, "base"), revision: undefined });
    const { opened, ...hub } = await open("hf:o/n@v1");
    expect(hub).toEqual({ recorded: "o/n", revision: "v1" });
    const exported = exportedFiles(opened, manifestOf(opened), { merged: false, dtype: undefined });
    expect(JSON.parse(Buffer.from(wholeFile(exported.get("base.json") ?? new Uint8Array())).toString()).path).toBe(
      "hf:o/n@v1",
    );
  });
});

test("a merged model is base plus adapter, as float32 or rounded to bfloat16", () => {
  const files = tinyAdapter();
  const whole = parseCheckpoint(files);
  const adapter = readAdapter(files, TINY);
  if (!adapter) throw new Error("the tiny checkpoint has no adapter");
  mergeAdapter(whole, adapter);
  expect(whole.weights).not.toEqual(parseCheckpoint(files).weights);
  for (const dtype of ["fp32", "bf16"] as const) {
    const merged = exportedFiles(files, manifestOf(files), { merged: true, dtype });
    expect([...merged.keys()].sort()).toEqual(BASE);
    const { weights } = parseCheckpoint(merged);
    weights.forEach((weight, i) => {
      const exact = whole.weights[i] ?? 0;
      expect(Math.abs(weight - exact)).toBeLessThanOrEqual(dtype === "fp32" ? 0 : Math.abs(exact) * 2 ** -8);
    });
    expect(weights.some((weight, i) => weight !== whole.weights[i])).toBe(dtype === "bf16");
    const { torch_dtype } = JSON.parse(
      new TextDecoder().decode(wholeFile(merged.get("config.json") ?? new Uint8Array())),
    ) as { torch_dtype: string };
    expect(torch_dtype).toBe(dtype === "fp32" ? "float32" : "bfloat16");
  }
});

test("bfloat16 rounds to nearest, ties to even", () => {
  // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7 (even: 1); 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6 (even: the latter).
  const values = Float32Array.of(1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -Math.PI, 0, 1e39, Number.NaN);
  const bytes = writeSafetensors(new Map([["x", { shape: [7], values }]]), {}, "BF16");
  const read = readSafetensors(bytes, "x").tensors.get("x")?.values ?? [];
  expect([...read]).toEqual([1, 1 + 2 ** -6, 1 + 2 ** -7, -3.140625, 0, Number.POSITIVE_INFINITY, Number.NaN]);
});
