/** @file One setting, `runner`, switches a team between this program's loop and an app, in `train`, `eval`, `ask`, `compare` and `sft`. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readTeam } from "../../cli/ask/config.ts";
import { correctConversations } from "../../cli/sft/correct-rollouts.ts";
import { type ExampleInput, openDemonstrations } from "../../cli/sft/sources.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { sha256 } from "../../engine/hash.ts";
import { openRecipe } from "../../recipes/registry.ts";
import type { TargetAgent } from "../../sft/check.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { chdirToProject, mgrpo, parsedLines, RELAY, RELAY_MODELS, readReport, relaySettings } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const TIMEOUT = 480_000;
const folder = chdirToProject();
const suite = relaySettings({ name: "sampled" });
const APP = ["--set", "runner=recipe"];
const NATIVE = ["--set", "runner=native"];

async function train(run: string, ...more: string[]) {
  const ended = await mgrpo(folder, "train", RELAY, "--run", run, "--steps", "2", ...suite, ...more);
  expect(ended).toMatchObject({ code: 0, stderr: "" });
  return parsedLines(ended.stdout);
}

test("train and eval run a team with the app or natively, and eval does so whichever trained it; ask reads the same setting", {
  timeout: TIMEOUT,
}, async () => {
  const steps = (await train("by-app", ...APP)).filter(({ kind }) => kind === "step");
  expect(steps.map(({ rollouts, excluded }) => [rollouts, excluded])).toEqual([
    [4, 0],
    [4, 0],
  ]);
  await train("by-program");
  for (const run of ["by-app", "by-program"]) {
    for (const runner of [[], APP, NATIVE]) {
      expect(await printedJson("eval", run, ...runner)).toMatchObject([{ kind: "evaluation", suite: "sampled", n: 6 }]);
      const { agents } = (await readTeam({ team: run, seed: 1, temperature: 1, set: runner.slice(1) })).config;
      const hasApp = runner === APP || (runner !== NATIVE && run === "by-app");
      expect(agents["searcher"]?.tools).toEqual(hasApp ? [] : ["lookup"]);
    }
  }
});

test("compare runs with the app, and main-only does not train the searcher", { timeout: TIMEOUT }, async () => {
  const arms = ["--arms", "mgrpo,main-only", "--seeds", "1", "--jobs", "2", "--steps", "2"];
  const { code, stderr } = await mgrpo(folder, "compare", RELAY, ...arms, ...suite, ...APP);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(existsSync(join(folder, "results/compare/summary.md"))).toBe(true);
  const [all, mainOnly] = ["mgrpo", "main-only"].map((arm) => readReport(folder, `compare-${arm}-seed1`));
  expect(mainOnly.agents.searcher.version).toBe(0);
  expect(all.agents.searcher.version).toBe(2);
  const config = JSON.parse(readFileSync(join(folder, "runs/compare-mgrpo-seed1/config.json"), "utf8"));
  expect(config).toMatchObject({ runner: "recipe", agents: { searcher: { tools: [] } } });
});

const target = (agent: string): TargetAgent => ({
  agent,
  config: {
    system: "",
    limits: { turns: 8, turnTokens: 400, contextTokens: 4000, calls: 4, responseCharacters: 100 },
  },
  toolbox: { parameters: new Map() },
});

test("sft --from-run trains on what the app's agents sampled, token for token", { timeout: TIMEOUT }, async () => {
  const recipe = await openRecipe(RELAY);
  const config = resolveConfig(recipe, { run: "sft", seed: 1, arm: "mgrpo", set: ["runner=recipe"], recipe: RELAY });
  const tokenizer = sha256(baseFiles("searcher").get("tokenizer.json") ?? "");
  const source = await openDemonstrations(recipe, config, { fromRun: "by-app" });
  const found = await correctConversations("by-app", 0.9);
  for (const agent of ["main", "searcher"]) {
    const taught = source(target(agent), tokenizer);
    const sampled = found.flatMap((one) => (one.agent === agent ? (one.sampled?.examples ?? []) : []));
    expect(sampled.length).toBeGreaterThan(0);
    expect(taught.map((one: ExampleInput) => ("example" in one ? one.example : undefined))).toEqual(sampled);
  }
  expect(() => source(target("main"), "another")).toThrow(/has another tokenizer: start from a model with the same/);
  const native = await openDemonstrations(recipe, config, { fromRun: "by-program" });
  expect(() => native(target("main"), tokenizer)).toThrow(/'by-program' did not run the app.*runner=native/);

  const command = ["sft", RELAY, "--from-run", "by-app", ...RELAY_MODELS, "--held-out", "0"];
  const ended = await mgrpo(folder, ...command, "--to", "warm", ...APP);
  expect(ended.code, ended.stderr).toBe(0);
  expect(ended.stderr).toMatch(/main: \d+ demonstrations? to train on/);
  for (const agent of ["main", "searcher"])
    expect(existsSync(join(folder, "warm", agent, "model.safetensors"))).toBe(true);
});
