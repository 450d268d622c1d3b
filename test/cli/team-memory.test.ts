/** @file What preflight says of a team's memory: which processes it counts, and its advice. */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { QWEN3_06B } from "../../bench/qwen3/model.ts";
import { Findings } from "../../cli/local/findings.ts";
import { checkMemory } from "../../cli/local/model-needs.ts";
import { RunConfig, type RunConfigInput } from "../../core/contracts/config.ts";
import type { CheckpointFiles, LocalFile } from "../../core/ports.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { sparseModel } from "../engine/sparse-model.ts";

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-team-memory-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What preflight says on a machine with one byte of memory. */
function refusal(
  bases: Record<string, CheckpointFiles>,
  settings: Pick<RunConfigInput, "agents" | "evaluation">,
): string {
  const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, ...settings });
  const findings = new Findings();
  checkMemory(config, new Map(Object.entries(bases)), findings, { total: 1, available: 1 });
  const [finding, ...others] = findings.all;
  expect([finding?.severity, others]).toEqual(["error", []]);
  return finding?.message ?? "";
}

/** Gigabytes, rounded to 0.1. */
const neededIn = (message: string) => Number(/needs about (\d+\.\d) GB/.exec(message)?.[1]);

const ENGINE = { weightPacking: "off", gradientCheckpointing: "on" } as const;
const agent = (delegates: string[], trained = true) => ({
  model: "base",
  lora: {},
  engine: ENGINE,
  delegates,
  trained,
});
/** 4 bytes for each of 596 million weights. */
const BASE_GB = 2.38;

test("where saving a large adapter takes the most memory, the advice is a smaller adapter", () => {
  const main = sparseModel(QWEN3_06B, join(temporaryFolder(), "base"));
  const engine = { ...ENGINE, slots: 1, microBatchTokens: 512 };
  const message = refusal({ main }, { agents: { main: { ...agent([]), lora: { rank: 512 }, engine } } });
  // 323 million weights are 1.3 GB. Saving takes one copy, and 3 GiB for what is in flight.
  expect(message).toMatch(/largest part is saving, 4\.5 GB: a lower lora\.rank, or fewer lora\.targets$/);
});

test("preflight counts a base once if two agents train adapters on it, even if they name it by different paths", () => {
  const folder = temporaryFolder();
  const main = sparseModel(QWEN3_06B, join(folder, "base"));
  const copy = sparseModel(QWEN3_06B, join(folder, "copy"));
  symlinkSync(join(folder, "base"), join(folder, "link"));
  const { bytes } = main.get(MODEL_FILE) as LocalFile;
  const linked = new Map([...main, [MODEL_FILE, { path: join(folder, "link", MODEL_FILE), bytes }]]);
  const agents = { main: agent(["searcher"]), searcher: agent([]) };
  const neededBy = (searcher: CheckpointFiles) => neededIn(refusal({ main, searcher }, { agents }));
  const apart = neededBy(copy);
  expect(apart).toBeGreaterThan(2 * BASE_GB);
  for (const same of [main, linked]) expect(Math.abs(apart - neededBy(same) - BASE_GB)).toBeLessThan(0.11);
});

test("preflight counts the worker of a frozen agent, which only samples, and evaluation workers, which sample from all agents", () => {
  const folder = temporaryFolder();
  const [main, searcher] = [
    sparseModel(QWEN3_06B, join(folder, "main")),
    sparseModel(QWEN3_06B, join(folder, "searcher")),
  ];
  const needed = (trained: boolean, evaluation: RunConfigInput["evaluation"] = {}) => {
    const agents = { main: agent(["searcher"]), searcher: agent([], trained) };
    return neededIn(refusal({ main, searcher }, { agents, evaluation }));
  };
  const alone = neededIn(refusal({ main }, { agents: { main: agent([]) } }));
  // A frozen agent has no optimizer and no activations, but its base and a KV cache.
  const frozen = needed(false) - alone;
  expect(frozen).toBeGreaterThan(BASE_GB);
  expect(frozen).toBeLessThan(alone - 0.5);
  const suites = [{ name: "test", questions: 10 }];
  // An evaluation worker maps the same pages as the agents' workers, and has the program once, 0.4 GB.
  const evaluator = needed(true, { suites }) - needed(true);
  expect(Math.abs(evaluator - 2 * (frozen - BASE_GB) + 0.4)).toBeLessThan(0.25);
  expect(Math.abs(needed(true, { suites, workers: 2 }) - needed(true) - 2 * evaluator)).toBeLessThan(0.25);
});

test("a warning says how many workers of the run share the machine of a dedicated agent", () => {
  const main = sparseModel(QWEN3_06B, join(temporaryFolder(), "main"));
  const warnings = (agents: RunConfigInput["agents"], evaluation: RunConfigInput["evaluation"] = {}) => {
    const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents, evaluation });
    const findings = new Findings();
    const bases = new Map(Object.keys(agents).map((name) => [name, main]));
    checkMemory(config, bases, findings, { total: 1e15, available: 1e15 });
    return findings.all.map(({ message }) => message);
  };
  const alone = { ...agent([]), engine: { ...ENGINE, dedicated: true } };
  expect(warnings({ main: alone })).toEqual([]);
  expect(warnings({ main: alone }, { suites: [{ name: "test" }] })).toEqual([
    expect.stringMatching(
      /^agents\.main\.engine\.dedicated: .*1 agent worker and 1 evaluation worker on this machine: set it to false/,
    ),
  ]);
  const team = { main: agent(["searcher"]), searcher: alone };
  expect(warnings(team)).toEqual([
    expect.stringMatching(/^agents\.searcher\.engine\.dedicated: the run has 2 agent workers on/),
  ]);
});

test("preflight counts every worker of an agent, and those of an agent that shares its policy: only one of them trains", () => {
  const main = sparseModel(QWEN3_06B, join(temporaryFolder(), "main"));
  const needed = (agents: RunConfigInput["agents"]) => neededIn(refusal({ main }, { agents }));
  const alone = needed({ main: agent([]) });
  const frozen = needed({ main: agent([], false) });
  // Another worker maps the same base.
  const sampling = frozen - BASE_GB;
  expect(sampling).toBeGreaterThan(0.4);
  const added = (agents: RunConfigInput["agents"]) => needed(agents) - alone;
  expect(Math.abs(added({ main: { ...agent([]), workers: 3 } }) - 2 * sampling)).toBeLessThan(0.25);
  const sharing = { model: "base", policy: "of:main", workers: 2 };
  expect(Math.abs(added({ main: agent(["searcher"]), searcher: sharing }) - 2 * sampling)).toBeLessThan(0.25);
});

test("a team that fits without its evaluations is warned, not refused", () => {
  const main = sparseModel(QWEN3_06B, join(temporaryFolder(), "main"));
  const check = (evaluation: RunConfigInput["evaluation"], available: number) => {
    const agents = { main: agent([]) };
    const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents, evaluation });
    const findings = new Findings();
    checkMemory(config, new Map([["main", main]]), findings, { total: available, available });
    return findings.all;
  };
  const alone = neededIn(refusal({ main }, { agents: { main: agent([]) } })) * 1e9 + 1e8;
  expect(check({ suites: [] }, alone)).toEqual([]);
  expect(check({ suites: [{ name: "test" }] }, alone)).toMatchObject([
    {
      severity: "warning",
      message: expect.stringMatching(/GB of memory, \d\.\d GB for evaluations, and \d+\.\d GB is free/),
    },
  ]);
});
