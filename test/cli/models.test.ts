/**
 * @file Every kind of model name that the command line accepts: a PEFT folder brings its base; a hub name brings its files and commit; and
 * `doctor --model` describes each.
 */
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { readBases, readModel, refuseLocalFiles } from "../../cli/local/base-models.ts";
import { pinModels } from "../../cli/local/hub-models.ts";
import { checkModel } from "../../cli/local/model-checks.ts";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { readAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { importGguf } from "../../engine/gguf/import.ts";
import { openTrainer, updated } from "../../engine/index.ts";
import { LORA, TINY, tinyCheckpoint } from "../engine/tiny.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { COMMIT, startHub, TOKEN } from "../fakes/hub-server.ts";
import { bpeFiles, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";
import { adapterOf, configOf, modelFolders, ROOMY } from "./model-folders.ts";
import { printedJson } from "./printed.ts";

const { root, write } = modelFolders();

test("an adapter's folder opens with the base that it names relative to itself", async () => {
  const base = write("base", new Map([...tinyCheckpoint(), ...bpeFiles()]));
  const opened = await readModel(write("adapters/one", adapterOf("../../base")), "--model");
  expect([...opened.keys()].sort()).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
  ]);
  expect(Buffer.from(wholeFile(opened.get("adapter_config.json") ?? new Uint8Array())).toString()).toContain(base);
});

test("the optimizer state in a model's folder is not read: training starts with a fresh one, with or without an adapter", async () => {
  const trainer = await openTrainer(tinyCheckpoint(ROOMY));
  const trained = updated(tinyCheckpoint(ROOMY), await trainer.save());
  await trainer.close();
  expect([...trained.keys()]).toContain("optimizer.safetensors");
  const folder = write("trained", new Map([...trained, ...bpeFiles()]));
  for (const lora of [null, LORA]) {
    const files = (await readBases(configOf(folder, { lora }), "train")).get("main");
    expect([...(files?.keys() ?? [])].filter((name) => /optimizer/.test(name))).toEqual([]);
    expect(files?.has("model.safetensors")).toBe(true);
  }
});

test("an adapter for a base of another shape is refused in one line that names the adapter", async () => {
  const wide = { ...TINY, width: 2 * TINY.width };
  write("wide", new Map([...tinyCheckpoint(wide), ...bpeFiles()]));
  const folder = write("adapters/two", adapterOf("../../wide"));
  const reading = readBases(configOf(folder), "train");
  await expect(reading).rejects.toMatchObject({ code: "checkpoint-damaged" });
  await expect(reading).rejects.toThrow(
    /^model of agent 'main', .*two: adapter_model.safetensors: .* has shape \[.*\], but this base requires \[.*\]: the adapter is for another base: open it with that base$/,
  );
});

test("an adapter is refused for a Tinker server, which would train a fresh one", async () => {
  write("base", new Map([...tinyCheckpoint(), ...bpeFiles()]));
  const folder = write("adapters/three", adapterOf("../../base"));
  const config = configOf(folder, { policy: "tinker:http://gpu1:8000", lora: null });
  await expect(readBases(config, "train")).rejects.toThrow(
    /^model of agent 'main', .*three: a Tinker server does not load an adapter: set the model to its base$/,
  );
});

test("a missing file of a model under s3:// is named by its URL", async () => {
  const files = new Map([...tinyCheckpoint()].filter(([name]) => name !== "config.json"));
  const reading = readBases(configOf("s3://bucket/models/tiny/"), "train", new Map([["main", files]]));
  await expect(reading).rejects.toThrow("s3://bucket/models/tiny/config.json is missing: agent 'main' needs it");
});

test("a bucket without a folder is refused, with the name of the setting", async () => {
  await expect(readModel("s3://bucket/", "agents.main.model")).rejects.toThrow(
    "agents.main.model: 's3://bucket/' names no folder: write s3://<bucket>/<folder>",
  );
});

test("a folder that exists but has no model is not called missing; the models in its own folders are named", async () => {
  const empty = write("empty", new Map());
  await expect(readModel(empty, "agents.main.model")).rejects.toThrow(
    `agents.main.model: the folder '${empty}' has no files of a model: give hf:<owner>/<name>, or the folder of a model`,
  );
  write("warm/searcher", adapterOf("../../base"));
  write("warm/main", tinyCheckpoint());
  write("warm/.sft", new Map([["position.json", new Uint8Array()]]));
  const warm = join(root, "warm");
  await expect(readModel(warm, "agents.main.model")).rejects.toThrow(
    `agents.main.model: the folder '${warm}' has no files of a model: name one of its folders: ${warm}/main, ${warm}/searcher`,
  );
});

test("a setting with an agent's name is refused by doctor, which has one agent, and says what to write", async () => {
  await expect(checkModel("nowhere", ["agents.main.limits.turns=3"])).rejects.toThrow(
    "--set agents.main.limits.turns=3: here it is a setting of the model's agent: leave out 'agents.main.': --set limits.turns=3",
  );
});

test("what a run would refuse is named without the agent; sub-agents, which need no memory here, are accepted", async () => {
  await expect(checkModel("nowhere", ["engine.precision=bf16"])).rejects.toThrow(/^--set: engine\.precision: /);
  await expect(checkModel("nowhere", ['delegates=["searcher"]'])).rejects.toThrow(/nowhere/);
});

describe("a model under s3://", () => {
  const model = new Map([...tinyCheckpoint(ROOMY), ...bpeFiles()]);
  const partial = new Map([...model].filter(([name]) => name !== "tokenizer.json"));
  const settings = ["--set", "limits.contextTokens=16", "--set", "lora.rank=4"];

  beforeAll(async () => {
    const cloud = await startLocalCloud({ directory: join(root, "cloud") });
    const restoreEnvironment = setEnvironment(cloud.environment);
    const { objects, close } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
    const put = async (prefix: string, files: ReadonlyMap<string, Uint8Array>) => {
      for (const [name, bytes] of files) await objects.commit(`${prefix}/${name}`, bytes);
    };
    await put("models/tiny", model);
    await put("models/partial", partial);
    await put("models/adapter", adapterOf("s3://mgrpo/models/tiny") as typeof model);
    await put("models/stray", adapterOf("./base") as typeof model);
    close();
    return async () => {
      restoreEnvironment();
      await cloud.close();
    };
  });

  /** Without the last check, which prints the machine's free memory. */
  const doctor = async (name: string, set = settings) => {
    const checks = (await printedJson("doctor", "--model", name, ...set)).slice(0, -1);
    const exitCode = process.exitCode;
    process.exitCode = undefined;
    return { checks, exitCode };
  };

  test("is described by doctor like a folder with the same files, with or without a trailing slash; an adapter there is described too", async () => {
    const inFolder = await doctor(write("doctor", model));
    expect(inFolder.checks[0]).toMatchObject({ state: "ok", found: expect.stringMatching(/an adapter of rank 4$/) });
    expect(await doctor("s3://mgrpo/models/tiny")).toEqual(inFolder);
    expect(await doctor("s3://mgrpo/models/tiny/")).toEqual(inFolder);
    const { checks } = await doctor("s3://mgrpo/models/adapter", settings.slice(0, 2));
    expect(checks[0]).toMatchObject({ found: expect.stringContaining(" with its adapter; trained: ") });
  });

  test("is reported as broken without its tokenizer, and doctor says which file is missing", async () => {
    const { checks, exitCode } = await doctor("s3://mgrpo/models/partial");
    const advice = "copy it from the base model";
    expect(checks).toContainEqual({ name: "template", state: "broken", found: "tokenizer.json is missing", advice });
    expect(exitCode).toBe(1);
  });

  test.each([
    ["s3://mgrpo/models/none", /^--model: no checkpoint folder 's3:\/\/mgrpo\/models\/none': give hf:/],
    ["s3://nobody/models/tiny", /nobody/],
    ["s3://mgrpo/models/stray", /^s3:\/\/mgrpo\/models\/stray\/adapter_config.json: no checkpoint folder '.\/base'/],
  ])("that does not exist, or whose base does not, is refused with its URL: %s", async (name, message) => {
    await expect(doctor(name)).rejects.toThrow(message);
  });
});

describe("a model from the hub", () => {
  beforeAll(async () => {
    const whole = new Map([...tinyCheckpoint(ROOMY), ...bpeFiles()]);
    const hub = await startHub("owner/tiny", whole);
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_HOME", join(root, "hf"));
    vi.stubEnv("HF_TOKEN", TOKEN);
    const silent = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    return async () => {
      silent.mockRestore();
      vi.unstubAllEnvs();
      await hub.close();
    };
  });

  test("is recorded with its commit; a model behind an API with such a name is not looked up; a name without an owner is refused", async () => {
    const { agents } = await pinModels(configOf("hf:owner/tiny"));
    expect(agents["main"]?.model).toBe(`hf:owner/tiny@${COMMIT}`);
    const behindApi = structuredClone(configOf("hf:owner/other"));
    Object.assign(behindApi.agents["main"] ?? {}, { policy: "openai" });
    expect((await pinModels(behindApi)).agents["main"]?.model).toBe("hf:owner/other");
    await expect(pinModels(configOf("hf:tiny"))).rejects.toThrow(
      /^agents.main.model: 'hf:tiny' names no model of the hub: write hf:<owner>\/<name>/,
    );
  });

  test("that an adapter names as its base, but that does not exist, is refused; the error names the adapter's folder", async () => {
    const folder = write("adapters/baseless", adapterOf("owner/none"));
    await expect(readModel(folder, "--model")).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringMatching(/^hf:owner\/none@main, the base of the adapter in .*baseless: /),
    });
  });

  test("stays at its commit in a run that has started, if the name has no revision", async () => {
    const recorded = `hf:owner/tiny@${"b".repeat(40)}`;
    const pinned = (model: string) => pinModels(configOf(model), configOf(recorded));
    expect(await pinned("hf:owner/tiny")).toEqual(configOf(recorded));
    expect(await pinned("hf:owner/tiny@main")).toEqual(configOf(`hf:owner/tiny@${COMMIT}`));
    expect(await pinned("models/tiny")).toEqual(configOf("models/tiny"));
  });

  test("opens as a model, and as the base of an adapter that names it; doctor describes it", async () => {
    const files = await readModel("hf:owner/tiny", "--model");
    expect(wholeFile(files.get("model.safetensors") ?? new Uint8Array())).toEqual(
      tinyCheckpoint(ROOMY).get("model.safetensors"),
    );
    const opened = await readModel(write("adapters/three", adapterOf("hf:owner/tiny@main")), "--model");
    expect(opened.get("config.json")).toEqual(files.get("config.json"));
    expect(readAdapterConfig(opened)).toMatchObject({ base: "owner/tiny", revision: COMMIT });
    const [model] = await checkModel("hf:owner/tiny", ["limits.contextTokens=16"]);
    expect(model).toMatchObject({
      state: "ok",
      found: expect.stringMatching(/^Qwen3ForCausalLM, 0\.\d+ million parameters/),
    });
  });
});

test("a large file from the hub has an origin that remote workers can open; one from a folder has none", async () => {
  const large = new Map([...bpeFiles(), ["model.safetensors", new Uint8Array(LARGE_FILE_BYTES + 1)]]);
  const hub = await startHub("owner/large", new Map([...large, ["config.json", new Uint8Array()]]));
  vi.stubEnv("HF_ENDPOINT", hub.url);
  vi.stubEnv("HF_HOME", join(root, "hf-large"));
  vi.stubEnv("HF_TOKEN", TOKEN);
  const silent = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const files = await readModel("hf:owner/large", "--model");
  silent.mockRestore();
  vi.unstubAllEnvs();
  await hub.close();
  expect(files.get("model.safetensors")).toMatchObject({ origin: `hf:owner/large@${COMMIT}/model.safetensors` });
  expect(() => refuseLocalFiles("main", files)).not.toThrow();
  const local = await readModel(write("large", large), "--model");
  expect(() => refuseLocalFiles("main", local)).toThrow(/67 MB\) is too large .* or name a model of the hub$/);
});

test("the template of an agent of an app is checked with a tool, which the app may offer and the config does not name", async () => {
  const refusing = TERSE_TEMPLATE.replace(
    "{%- if message",
    "{%- if message.role == 'system' %}{{- raise_exception('no system role') }}{%- elif message",
  );
  const model = write("no-system", new Map([...tinyCheckpoint(ROOMY), ...bpeFiles(refusing)]));
  const read = (runner: RunConfig["runner"], settings = {}) =>
    readBases({ ...configOf(model, settings), runner }, "evaluate");
  expect((await read("native")).has("main")).toBe(true);
  await expect(read("recipe")).rejects.toThrow(
    /refuses the system message that describes its tools: set agents\.main\.toolPrompt to "user"/,
  );
  expect((await read("recipe", { toolPrompt: "user" })).has("main")).toBe(true);
});

describe("a GGUF file", () => {
  const path = join(import.meta.dirname, "../fixtures/gguf/tiny.gguf");

  test("is refused as a model of a run, with the command that converts it", async () => {
    await expect(readBases(configOf(path), "train")).rejects.toThrow(
      /^agents.main.model: .*tiny.gguf is a GGUF file: convert it once with .* import .*tiny.gguf --to .*tiny, then name .*tiny$/,
    );
  });

  test("is described by doctor like the folder that it would become; a missing file and a folder are refused", async () => {
    const folder = join(root, "from-gguf");
    await importGguf(path, folder);
    const settings = ["limits.contextTokens=16", "lora.rank=4"];
    const [file, imported] = [await checkModel(path, settings), await checkModel(folder, settings)];
    expect(file[0]).toMatchObject({
      found: expect.stringMatching(/as .*Q4_1/),
      advice: expect.stringMatching(/import/),
    });
    expect(file.slice(1, -1).filter(({ name }) => name !== "  weights")).toEqual(
      imported.slice(1, -1).filter(({ name }) => name !== "  weights"),
    );
    await expect(checkModel("nowhere.gguf", [])).rejects.toThrow(/^nowhere.gguf: no such file$/);
    const notAFile = write("folder.gguf", new Map());
    await expect(checkModel(notAFile, [])).rejects.toThrow(`${notAFile} is a folder: name the .gguf file in it`);
  });
});
