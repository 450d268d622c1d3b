/**
 * @file `mgrpo compare` with real runs in processes of their own: the second arm samples at least as many tokens as the first, second stages
 * start from a run's checkpoints, and runs and records are kept, resumed or refused.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { Provenance } from "../../cli/compare/provenance.ts";
import { Comparison } from "../../cli/compare/summary.ts";
import { trainQuestions } from "../fixtures/relay/questions.ts";
import { chdirToProject, mgrpo, parsedLines, RELAY, readReport, relaySettings } from "./command-line.ts";
import { printed } from "./printed.ts";

const TIMEOUT = 480_000;
const folder = chdirToProject();

const RUNS = ["compare-mgrpo-seed1", "compare-shuffled-advantages-seed1"] as const;
const compareArguments = (...more: string[]) => {
  const arms = ["--arms", "mgrpo,shuffled-advantages", "--seeds", "1", "--jobs", "2"];
  return ["compare", RELAY, ...arms, ...relaySettings({ name: "sampled" }), ...more];
};
const pathOf = (run: string) => join(folder, "results/compare/runs", `${run}.json.gz`);
const recordOf = (run: string): { by: Provenance } => JSON.parse(gunzipSync(readFileSync(pathOf(run))).toString());
const summary = () => Comparison.parse(JSON.parse(readFileSync(join(folder, "results/compare/summary.json"), "utf8")));
const eventsOf = (stdout: string) => parsedLines(stdout).map(({ kind, run, text }) => `${kind} ${run ?? text}`);

test("each arm and seed is one run; the repeated command keeps finished runs and resumes interrupted ones", {
  timeout: TIMEOUT,
}, async () => {
  const first = await mgrpo(folder, ...compareArguments("--steps", "2"));
  expect(first.stderr).toBe("");
  expect(eventsOf(first.stdout)).toEqual([
    ...RUNS.flatMap((run) => [`started ${run}`, `finished ${run}`]),
    "note results/compare/summary.md",
  ]);
  for (const file of ["summary.md", "steps.csv", "evaluations.csv", "questions.csv", "held-out.svg", "reward.svg"]) {
    expect(existsSync(join(folder, "results/compare", file))).toBe(true);
  }
  const { arms, ...rest } = summary();
  expect(rest).toMatchObject({ recipe: RELAY, seeds: [1], missing: [], command: expect.stringContaining("--steps 2") });
  const [[reference], [control]] = arms.map(({ runs }) => runs) as [
    (typeof arms)[number]["runs"],
    (typeof arms)[number]["runs"],
  ];
  expect(control?.short).toBe(false);
  expect(control?.sampledTokens).toBeGreaterThanOrEqual(reference?.sampledTokens ?? Number.NaN);
  expect(readReport(folder, RUNS[1]).algorithm).toMatchObject({ shuffleAdvantages: true });

  // A run whose origin.json names another commit.
  const origin = join(folder, "runs", RUNS[0], "origin.json");
  const begun = Provenance.parse(JSON.parse(readFileSync(origin, "utf8")));
  writeFileSync(origin, JSON.stringify({ ...begun, commit: "another" }));
  await expect(printed(...compareArguments("--steps", "2"))).rejects.toThrow(
    /run 'compare-mgrpo-seed1' already exists, but began with another commit, release, recipe, question set, config or base model: commit: "another" \(stored\), .*keep it with --mixed/,
  );
  writeFileSync(origin, JSON.stringify(begun));

  rmSync(join(folder, "runs", RUNS[1], "report.json"));
  rmSync(join(folder, "results/compare/runs", `${RUNS[1]}.json.gz`));
  const again = await mgrpo(folder, ...compareArguments("--steps", "2"));
  expect(again).toMatchObject({ code: 0, stderr: "" });
  expect(eventsOf(again.stdout)).toEqual([
    `kept ${RUNS[0]}`,
    `started ${RUNS[1]}`,
    `finished ${RUNS[1]}`,
    "note results/compare/summary.md",
  ]);
  expect(summary().arms.map(({ heldOut }) => heldOut)).toEqual(arms.map(({ heldOut }) => heldOut));

  await expect(printed(...compareArguments("--steps", "4"))).rejects.toThrow(
    /run 'compare-mgrpo-seed1' already exists with another config: steps: 2 \(stored\), 4 \(requested\)/,
  );

  // Another clone has only the results.
  const before = readFileSync(join(folder, "results/compare/questions.csv"), "utf8");
  rmSync(join(folder, "runs"), { recursive: true });
  expect(eventsOf(await printed(...compareArguments("--steps", "2")))).toEqual([
    ...RUNS.map((run) => `kept ${run}`),
    "note results/compare/summary.md",
  ]);
  expect(readFileSync(join(folder, "results/compare/questions.csv"), "utf8")).toBe(before);
  await expect(printed(...compareArguments("--steps", "4"))).rejects.toThrow(
    /compare-mgrpo-seed1\.json\.gz was made with other settings, or from another commit, release, recipe, question set, config or base model: set\.?.*steps=2.* \(stored\)/,
  );
});

test("Ctrl-C in a repeated comparison whose runs have finished is not an interruption", {
  timeout: TIMEOUT,
}, async () => {
  // Uses the records that the first test wrote.
  const interrupt = (event: string | symbol) => {
    if (event === "SIGINT") queueMicrotask(() => process.emit("SIGINT"));
  };
  process.on("newListener", interrupt);
  try {
    const stdout = await printed(...compareArguments("--steps", "2"));
    expect(eventsOf(stdout)).toEqual([...RUNS.map((run) => `kept ${run}`), "note results/compare/summary.md"]);
    expect(process.exitCode).not.toBe(130);
  } finally {
    process.off("newListener", interrupt);
    process.exitCode = undefined;
  }
});

test("second stages start from the checkpoints of the seed's run that finished, on the questions of the seed's file", {
  timeout: TIMEOUT,
}, async () => {
  const hard = join(folder, "hard-{seed}.jsonl");
  writeFileSync(
    join(folder, "hard-2.jsonl"),
    trainQuestions
      .slice(6)
      .map((one) => JSON.stringify(one))
      .join("\n"),
  );
  const suite = relaySettings({ name: "sampled" });
  await mgrpo(folder, "train", RELAY, "--run", "stage1-seed2", "--steps", "1", ...suite);
  const stage2 = [
    "compare",
    RELAY,
    "--arms",
    "mgrpo,main-only",
    "--seeds",
    "2-2",
    "--name",
    "stage2",
    "--questions",
    hard,
  ];
  const suites = ["--set", 'evaluation.suites=[{"name":"sampled"}]'];
  const { code, stderr } = await mgrpo(folder, ...stage2, ...suites, "--from", "stage1-seed{seed}", "--steps", "2");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });

  const shaOf = (run: string, agent: string) => readReport(folder, run).agents[agent].sha256;
  expect(shaOf("stage2-main-only-seed2", "searcher")).toBe(shaOf("stage1-seed2", "searcher"));
  expect(shaOf("stage2-main-only-seed2", "main")).not.toBe(shaOf("stage1-seed2", "main"));
  const page = readFileSync(join(folder, "results/stage2/summary.md"), "utf8");
  expect(page).toContain("main-only: the checkpoints of run stage1-seed{seed}, with frozen sub-agents");
  expect(page).toContain(`| training questions | ${hard} |`);
  rmSync(join(folder, "runs"), { recursive: true });
});

test("a record from another commit, release, config or base model, or of other questions, is refused; --mixed accepts and names it", {
  timeout: TIMEOUT,
}, async () => {
  // Uses the records that the first test wrote.
  const [{ by, ...record }, path] = [recordOf(RUNS[1]), pathOf(RUNS[1])];
  const rewriteProvenance = (changed: object) =>
    writeFileSync(path, gzipSync(JSON.stringify({ ...record, by: { ...by, ...changed } })));
  const { bases = {}, config = {} } = by;
  const others: [changed: object, message: RegExp][] = [
    [{ commit: "another" }, /commit: "another" \(stored\)/],
    [{ release: "0.0.1+abc" }, /release: "0\.0\.1\+abc" \(stored\)/],
    [{ questions: "0".repeat(64) }, /questions: "0{64}" \(stored\)/],
    [{ config: { ...config, temperature: 0.5 } }, /config\.temperature: 0\.5 \(stored\), 1 \(requested\)/],
    [{ bases: { ...bases, searcher: "0".repeat(64) } }, /bases\.searcher: "0{64}" \(stored\)/],
  ];
  for (const [changed, message] of others) {
    rewriteProvenance(changed);
    const refused = printed(...compareArguments("--steps", "2"));
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toThrow(
      /compare-shuffled-advantages-seed1\.json\.gz was made with other settings, or from another commit, release, recipe, question set, config or base model: .*--mixed/,
    );
  }
  rewriteProvenance({ machine: "another", commit: "another", config: { ...config, temperature: 0.5 } });
  expect(eventsOf(await printed(...compareArguments("--steps", "2", "--mixed")))).toContain(`kept ${RUNS[1]}`);
  expect(summary().foreign).toEqual([
    {
      run: RUNS[1],
      commit: "another",
      differences: [
        `commit: "another" (stored), "${by.commit}" (requested)`,
        "config.temperature: 0.5 (stored), 1 (requested)",
      ],
    },
  ]);
  const page = readFileSync(join(folder, "results/compare/summary.md"), "utf8");
  expect(page).toContain("**1 run from another commit, release, recipe, question set, config or base model**");
  expect(page).toContain(`| ${RUNS[1]} | another | commit:`);

  // A record may lack the release, the questions, the config and the base models.
  const { commit, machine } = by;
  writeFileSync(path, gzipSync(JSON.stringify({ ...record, by: { commit, machine } })));
  await expect(printed(...compareArguments("--steps", "2"))).rejects.toThrow(
    /release: not recorded; questions: not recorded; config: not recorded; bases: not recorded/,
  );
});
