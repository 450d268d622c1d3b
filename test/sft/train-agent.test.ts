/** @file Training an agent on disk: killed and restarted, it ends with the same bytes; changed settings and foreign folders are refused. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { CheckpointFiles, PolicyEngine } from "../../core/ports.ts";
import { TINY_OPTIONS, tinyModel } from "../../engine/compiled/provider-check.ts";
import { sha256 } from "../../engine/hash.ts";
import { openEngine, withLora } from "../../engine/index.ts";
import type { Example } from "../../sft/example.ts";
import { type AgentTraining, trainAgent } from "../../sft/train-agent.ts";

const parent = mkdtempSync(join(tmpdir(), "mgrpo-sft-"));
afterAll(() => rmSync(parent, { recursive: true }));

const example = (seed: number): Example => ({
  tokens: [1, 2, 3, (seed % 5) + 1, (seed % 3) + 1, 2],
  turns: [[3, 6]],
});
const EXAMPLES = Array.from({ length: 12 }, (_, i) => example(i));
const WHOLE = tinyModel();
const ADAPTER = withLora(WHOLE, "models/tiny", ["test"], { rank: 2, alpha: 4 });

function training(name: string, base: CheckpointFiles, changes: Partial<AgentTraining> = {}): AgentTraining {
  return {
    agent: "main",
    seed: 1,
    base,
    policy: "eager",
    engine: openEngine("eager"),
    options: TINY_OPTIONS,
    examples: { training: EXAMPLES, heldOut: [example(7), example(8)] },
    plan: { tokens: 72, learningRate: 0.05, warmUp: 0.1, evaluateEvery: 2, patience: 9 },
    batchTokens: 12,
    folder: join(parent, name, "main"),
    stateFolder: join(parent, name, ".sft", "main"),
    ...changes,
  };
}

const bytesOf = (folder: string) =>
  Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file)).toString("base64")]));

/** An engine whose trainer fails at the n-th call of a method, as if the process were killed there. */
function killedAt(method: "forwardBackward" | "logProbs" | "save", n: number): PolicyEngine {
  const engine = openEngine("eager");
  return {
    ...engine,
    async openTrainer(files, options) {
      const trainer = await engine.openTrainer(files, options);
      let calls = 0;
      const call = trainer[method].bind(trainer) as (...args: unknown[]) => Promise<never>;
      return {
        ...trainer,
        [method]: async (...args: unknown[]) => {
          if (++calls === n) throw new Error("killed");
          return call(...args);
        },
      };
    },
  };
}

test.each<[string, CheckpointFiles, string[]]>([
  ["an adapter", ADAPTER, ["adapter_config.json", "adapter_model.safetensors", "base.json", "training.json"]],
  ["all weights", WHOLE, [...[...WHOLE.keys()].filter((file) => file !== "training.json"), "training.json"].sort()],
])(
  "%s: a training run that is killed in a step, an evaluation or a save ends with the same bytes once it is restarted",
  async (name, base, files) => {
    const whole = training(`${name} whole`, base);
    const { progress } = await trainAgent(whole);
    expect(progress).toMatchObject({ tokens: 72, ended: "tokens" });
    expect(progress.evaluations[0]?.loss).toBeGreaterThan(progress.evaluations.at(-1)?.loss ?? 0);
    const expected = bytesOf(whole.folder);
    expect(Object.keys(expected).sort()).toEqual(files);
    for (const [method, n] of [
      ["forwardBackward", 2],
      ["forwardBackward", 4],
      ["logProbs", 3],
      ["save", 2],
    ] as const) {
      const killed = training(`${name} ${method} ${n}`, base);
      await expect(trainAgent({ ...killed, engine: killedAt(method, n) })).rejects.toThrow("killed");
      expect(existsSync(killed.folder)).toBe(false);
      await trainAgent(killed);
      expect(bytesOf(killed.folder)).toEqual(expected);
    }
  },
  240_000,
);

test("half-written files that a kill leaves are replaced, and a finished training run is not repeated", async () => {
  const again = training("again", ADAPTER);
  await expect(trainAgent({ ...again, engine: killedAt("forwardBackward", 3) })).rejects.toThrow("killed");
  const torn = join(again.stateFolder, "step-4");
  mkdirSync(torn);
  writeFileSync(join(torn, "adapter_model.safetensors"), "half");
  writeFileSync(join(again.stateFolder, "progress.json.new"), "{");
  const first = await trainAgent(again);
  const second = await trainAgent({ ...again, engine: killedAt("logProbs", 1) });
  expect(second).toEqual({ ...first, hasTrained: false });
  rmSync(again.folder, { recursive: true });
  await trainAgent(again);
  expect(existsSync(join(again.folder, "adapter_model.safetensors"))).toBe(true);
});

test("the error names a saved file that was changed or removed, and says what to do", async () => {
  const damaged = training("damaged", ADAPTER);
  await expect(trainAgent({ ...damaged, engine: killedAt("forwardBackward", 3) })).rejects.toThrow("killed");
  const step = join(damaged.stateFolder, "step-2");
  const [name = ""] = readdirSync(step);
  const refused = (fault: string) => ({
    code: "checkpoint-damaged",
    message: `${join(step, name)} is ${fault}: restore it, or delete ${damaged.stateFolder}`,
  });
  writeFileSync(join(step, name), "changed");
  await expect(trainAgent(damaged)).rejects.toMatchObject(refused("not the file that was saved"));
  rmSync(join(step, name));
  await expect(trainAgent(damaged)).rejects.toMatchObject(refused("missing"));
  const progress = join(damaged.stateFolder, "progress.json");
  writeFileSync(progress, "{");
  await expect(trainAgent(damaged)).rejects.toMatchObject({
    code: "record-damaged",
    message: `${progress}: not JSON: restore the file, or delete ${damaged.stateFolder}`,
  });
});

test("training begun with one engine is not resumed with another", async () => {
  const begun = training("other engine", ADAPTER);
  await expect(trainAgent({ ...begun, engine: killedAt("forwardBackward", 3) })).rejects.toThrow("killed");
  await expect(trainAgent({ ...begun, policy: "compiled", engine: openEngine("compiled") })).rejects.toThrow(
    'policy: "eager" (stored), "compiled" (requested)): give the same options or another --to, or delete that folder',
  );
});

test("changed settings, and a folder that this training did not write, are refused", async () => {
  const first = training("refused", ADAPTER);
  await trainAgent(first);
  await expect(trainAgent({ ...first, seed: 2 })).rejects.toThrow("seed: 1 (stored), 2 (requested)");
  await expect(trainAgent({ ...first, examples: { ...first.examples, heldOut: [] } })).rejects.toThrow(
    "demonstrations.heldOut",
  );
  const other = training("taken", ADAPTER);
  mkdirSync(other.folder, { recursive: true });
  await expect(trainAgent(other)).rejects.toThrow("exists: give another --to");
});

test("an adapter's folder has the tokenizer and the chat template that it was trained with, and of its base only the path and each file's hash and size", async () => {
  const own = ["chat_template.jinja", "tokenizer.json"].map((name) => [name, Uint8Array.of(1)] as const);
  const { folder, ...rest } = training("tokenizer", new Map([...ADAPTER, ...own]));
  await trainAgent({ folder, ...rest });
  expect(readdirSync(folder).sort()).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
    "base.json",
    "chat_template.jinja",
    "tokenizer.json",
    "training.json",
  ]);
  expect([...readFileSync(join(folder, "chat_template.jinja"))]).toEqual([1]);
  const partOf = (name: string) => {
    const bytes = WHOLE.get(name) ?? expect.fail();
    return { sha256: sha256(bytes), bytes: bytes.length };
  };
  expect(JSON.parse(readFileSync(join(folder, "base.json"), "utf8"))).toEqual({
    path: resolve("models/tiny"),
    files: { "config.json": partOf("config.json"), "model.safetensors": partOf("model.safetensors") },
  });
});

test("an adapter whose base a recipe's engine opens itself keeps the base.json that it came with", async () => {
  const eager = openEngine("eager");
  const engine: PolicyEngine = { ...eager, openTrainer: (_, options) => eager.openTrainer(ADAPTER, options) };
  const own = new Map([...ADAPTER].filter(([name]) => !WHOLE.has(name)));
  const { folder, ...rest } = training("own base", new Map([...own, ["base.json", Uint8Array.of(1)]]), { engine });
  await trainAgent({ folder, ...rest });
  expect([...readFileSync(join(folder, "base.json"))]).toEqual([1]);
});
