/**
 * @file Pretraining: the loss falls, the folder is a complete checkpoint, and the same settings give the same bytes. A folder that cannot be
 * written completely has no weights file. Also the errors for faulty recipes, the choice of base models and folders, and the progress line.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Terminal } from "@xterm/headless";
import { afterAll, expect, test, vi } from "vitest";
import { chosenBases, placedIn, pretrainBase } from "../../cli/pretrain.ts";
import type { BaseModel, Demonstration, Recipe, RecipeConfig } from "../../core/recipe.ts";
import { withSettings } from "../../core/training/resolve-config.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { baseModels } from "../../recipes/atlas/bases.ts";
import { recipe } from "../../recipes/atlas/recipe.ts";
import * as toolsModule from "../../recipes/atlas/tools.ts";
import { callTurn } from "../../recipes/small-models/turns.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-pretrain-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function pretrained(
  name: string,
  tokens: number,
  maxDemonstrations = Number.POSITIVE_INFINITY,
): Promise<Map<string, Uint8Array>> {
  const searcher = baseModels.find(({ agent }) => agent === "searcher");
  if (!searcher) throw new Error("atlas has no searcher");
  const files = searcher.files();
  const base: BaseModel = {
    ...searcher,
    files: () => files,
    demonstrations: () => take(searcher.demonstrations(), maxDemonstrations),
    folder: join(folder, name),
    training: { ...searcher.training, tokens, batchTokens: 512 },
  };
  await pretrainBase(base, recipe, toolsModule);
  return new Map(readdirSync(base.folder).map((file) => [file, new Uint8Array(readFileSync(join(base.folder, file)))]));
}

function* take(
  all: Iterable<Demonstration>,
  count: number,
  change: (demonstration: Demonstration) => Demonstration = (each) => each,
): Generator<Demonstration> {
  let left = count;
  for (const each of all) {
    if (left-- <= 0) return;
    yield change(each);
  }
}

const lossOf = (files: ReadonlyMap<string, Uint8Array>): number =>
  JSON.parse(new TextDecoder().decode(files.get("training.json"))).loss;

test("a base model's loss falls with more tokens, its folder is a complete checkpoint, and its bytes are the same every time", async () => {
  const [once, again] = [await pretrained("a", 4_000), await pretrained("b", 4_000)];
  const short = await pretrained("c", 500);
  expect(lossOf(once)).toBeLessThan(lossOf(short) - 0.2);
  expect([...once.keys()].sort()).toEqual([
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "training.json",
  ]);
  expect(parseCheckpoint(once).weights.every(Number.isFinite)).toBe(true);
  for (const [name, bytes] of once)
    expect(Buffer.from(again.get(name) ?? []).equals(Buffer.from(bytes)), name).toBe(true);
});

test("the error for demonstrations that end before the tokens are spent names the base model, which is not written", async () => {
  await expect(pretrained("f", 40_000, 2)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/^the demonstrations of base model 'f' end after \d+ of 40000 tokens: /),
  });
  expect(existsSync(join(folder, "f"))).toBe(false);
});

test("the error for a demonstration that is longer than the model's context names the setting of the model", async () => {
  const searcher = baseModels.find(({ agent }) => agent === "searcher") ?? expect.fail();
  const long = { prompt: "word ".repeat(2000), turns: [{ text: "<answer>a</answer>", responses: [] }] };
  const base = { ...searcher, demonstrations: () => [long], folder: join(folder, "l") };
  await expect(pretrainBase(base, recipe, toolsModule)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(
      /^a demonstration of base model 'l' takes \d+ tokens, but the model's context holds \d+: raise its max_position_embeddings \(contextTokens of smallModel\(\)\)/,
    ),
  });
});

test("a base model learns what a rollout shows and can sample: responses are cut to the agent's limits, and a longer turn is refused", async () => {
  const searcher = baseModels.find(({ agent }) => agent === "searcher") ?? expect.fail();
  const files = searcher.files();
  const training = { ...searcher.training, tokens: 1000, batchTokens: 512 };
  const saying = (text: string, response: string) => {
    const turns = [
      { text: callTurn({ name: "visit", arguments: { title: "Niger" } }), responses: [response] },
      { text, responses: [] },
    ];
    return { ...searcher, files: () => files, training, demonstrations: () => endless({ prompt: "Niger", turns }) };
  };
  const weightsOf = async (base: BaseModel, name: string) => {
    await pretrainBase({ ...base, folder: join(folder, name) }, limited, toolsModule);
    return readFileSync(join(folder, name, "model.safetensors"));
  };
  const cut = await weightsOf(saying("<answer>a</answer>", "abcdefghij"), "m");
  expect(cut.equals(await weightsOf(saying("<answer>a</answer>", "abcdefgh, and so on"), "n"))).toBe(true);
  await expect(weightsOf(saying(`<answer>${"a ".repeat(30)}</answer>`, "b"), "o")).rejects.toMatchObject({
    code: "demonstrations-invalid",
    message: expect.stringMatching(
      /^recipe 'atlas': a demonstration of base model 'o': turn 2 takes \d+ tokens, and a turn has at most 20: raise agents\.searcher\.limits\.turnTokens, /,
    ),
  });
});

/** Atlas, with searchers that see the first 8 characters of a response and write at most 20 tokens in a turn. */
const limited: Recipe = {
  ...recipe,
  config: (arm, chosen) =>
    withSettings(recipe.config(arm, chosen), [
      "agents.searcher.limits.responseCharacters=8",
      "agents.searcher.limits.turnTokens=20",
    ]) as RecipeConfig,
};

function* endless(demonstration: Demonstration): Generator<Demonstration> {
  for (;;) yield demonstration;
}

test("a base model of two agents learns each agent's demonstrations under that agent's system message; an agent that its arm lacks is refused", async () => {
  const shared = baseModels.find(({ arm }) => arm === "shared-policy") ?? expect.fail();
  const files = shared.files();
  const training = { ...shared.training, tokens: 2000, batchTokens: 512 };
  const base = { ...shared, files: () => files, training };
  await pretrainBase({ ...base, folder: join(folder, "i") }, recipe, toolsModule);
  const weights = readFileSync(join(folder, "i", "model.safetensors"));
  // The same texts, all for agent main: other system messages, so other weights.
  const asMain = () => take(shared.demonstrations(), 1000, (each) => ({ ...each, agent: "main" }));
  await pretrainBase({ ...base, demonstrations: asMain, folder: join(folder, "j") }, recipe, toolsModule);
  expect(readFileSync(join(folder, "j", "model.safetensors")).equals(weights)).toBe(false);
  const asFinder = () => take(shared.demonstrations(), 1000, (each) => ({ ...each, agent: "finder" }));
  await expect(
    pretrainBase({ ...base, demonstrations: asFinder, folder: join(folder, "k") }, recipe, toolsModule),
  ).rejects.toMatchObject({
    code: "recipe-invalid",
    message: "baseModels: arm 'shared-policy' has no agent 'finder'",
  });
});

test("the error for an invalid setting of a recipe names the recipe and the setting", async () => {
  const [main = expect.fail()] = baseModels;
  const broken: Recipe = { ...recipe, config: (arm, chosen) => ({ ...recipe.config(arm, chosen), steps: 0 }) };
  await expect(pretrainBase({ ...main, folder: join(folder, "g") }, broken, toolsModule)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringMatching(/^config of recipe 'atlas': steps: /),
  });
});

test("the tools are closed, even if one that the agent needs is missing", async () => {
  const searcher = baseModels.find(({ agent }) => agent === "searcher") ?? expect.fail();
  const close = vi.fn(async () => {});
  const tools = async () => ({ tools: new Map(), close });
  await expect(pretrainBase({ ...searcher, folder: join(folder, "h") }, recipe, { tools })).rejects.toMatchObject({
    code: "recipe-invalid",
  });
  expect(close).toHaveBeenCalledOnce();
});

test("--only takes exact names or folders of base models, and an unknown one is refused", () => {
  const [main = expect.fail(), subMain = expect.fail()] = ["models/main", "models/sub-main"].map((path) => ({
    ...(baseModels[0] ?? expect.fail()),
    folder: join(folder, path),
  }));
  const own = { ...recipe, baseModels: [main, subMain] };
  expect(chosenBases(own)).toEqual([main, subMain]);
  expect(chosenBases(own, ["main"])).toEqual([main]);
  expect(chosenBases(own, [subMain.folder])).toEqual([subMain]);
  expect(() => chosenBases(own, ["main", "seracher"])).toThrow("no base model 'seracher' (available: main, sub-main)");
});

test("a base model that cannot be written completely has no weights file, so that no run uses it", async () => {
  await pretrained("e", 500);
  rmSync(join(folder, "e", "training.json"));
  mkdirSync(join(folder, "e", "training.json", "in the way"), { recursive: true });
  await expect(pretrained("e", 500)).rejects.toThrow("training.json");
  expect(existsSync(join(folder, "e", "model.safetensors"))).toBe(false);
  expect(readdirSync(folder).filter((name) => name.startsWith("e"))).toEqual(["e"]);
});

test("on a terminal the progress of a base model stays on one line", async () => {
  const { isTTY, columns } = process.stderr;
  Object.assign(process.stderr, { isTTY: true, columns: 120 });
  const written: string[] = [];
  const spy = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    await pretrained("d", 40_000);
  } finally {
    spy.mockRestore();
    Object.assign(process.stderr, { isTTY, columns });
  }
  const lines = await screenOf(written.join(""));
  expect(lines).toEqual([expect.stringMatching(/d: 0\.04 of 0\.04 M tokens, loss [\d.]+, \d+ tokens\/s$/)]);
});

/** The lines that a terminal of 120 columns shows after this output. */
async function screenOf(output: string): Promise<string[]> {
  const terminal = new Terminal({ cols: 120, rows: 24, allowProposedApi: true, convertEol: true });
  await new Promise<void>((done) => terminal.write(output, done));
  const { active } = terminal.buffer;
  const lines = Array.from({ length: active.length }, (_, i) => active.getLine(i)?.translateToString(true) ?? "");
  return lines.filter((line) => line !== "");
}

test("two base models whose folders have the same name are not written to one folder", () => {
  const base = baseModels[0] ?? expect.fail();
  const bases = ["small/main", "large/main"].map((place) => ({ ...base, folder: place }));
  expect(placedIn(undefined, bases).map((each) => each.folder)).toEqual(["small/main", "large/main"]);
  expect(placedIn("made", bases.slice(1)).map((each) => each.folder)).toEqual([join("made", "main")]);
  expect(() => placedIn("made", bases)).toThrow(/^two base models would be written to made.main: .*--only/);
});
