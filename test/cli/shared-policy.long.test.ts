/** @file A team that shares a policy, from the command line: trained, interrupted, evaluated, asked, shown and compared. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { chdirToProject, mgrpo, parsedLines, RELAY, readReport, signaledAtStep } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const TIMEOUT = 480_000;
const folder = chdirToProject();

const set = (...settings: string[]) => settings.flatMap((setting) => ["--set", setting]);
const suites = 'evaluation.suites=[{"name":"sampled","runs":4}]';
const train = (run: string, ...more: string[]) => [
  ...["train", RELAY, "--run", run, "--arm", "shared-policy", "--steps", "3"],
  ...set("agents.main.model=models/main", suites, "liveness.leaseSeconds=10"),
  ...more,
];
const reportOf = (cwd: string, run: string) => RunReport.parse(readReport(cwd, run));

test("the report names one checkpoint for both agents, with each agent's share of the loss and its training metrics", {
  timeout: TIMEOUT,
}, async () => {
  const ended = await mgrpo(folder, ...train("one", ...set("agents.main.share=3")));
  expect(ended).toMatchObject({ code: 0 });
  const report = reportOf(folder, "one");
  expect(report.agents["searcher"]).toEqual(report.agents["main"]);
  expect(report.agents["main"]).toMatchObject({ version: 3, checkpoint: "runs/one/checkpoints/main" });
  expect(readdirSync("runs/one/checkpoints")).toEqual(["main"]);
  expect(report.sharedPolicies).toEqual({
    main: { owner: "main", share: 0.75 },
    searcher: { owner: "main", share: 0.25 },
  });
  for (const { training } of report.perStep) {
    expect(Object.keys(training).sort()).toEqual(["main", "searcher"]);
    expect(training["searcher"]).toMatchObject({ share: 0.25 });
  }
  const [metrics] = parsedLines(readFileSync("runs/one/metrics.jsonl", "utf8")).filter(
    ({ source }) => source === "step",
  );
  expect(metrics?.["metrics"]).toMatchObject({
    "train/main/entropy": expect.any(Number),
    "train/searcher/entropy": expect.any(Number),
    "policy/main/grad_norm": expect.any(Number),
  });
});

test("a finished run can be evaluated, asked and shown", { timeout: TIMEOUT }, async () => {
  const { evaluations } = reportOf(folder, "one");
  const [again] = await printedJson("eval", "one");
  expect(again?.["runs"]).toEqual(evaluations.find(({ team }) => team === 3)?.runs);
  // The stored config repeats the owner's settings for searcher, but --set on the owner changes both.
  expect(await printedJson("eval", "one", "--set", "agents.main.engine.slots=4")).toHaveLength(1);
  expect((await mgrpo(folder, "ask", "What follows amber?", "--team", "one")).code).toBe(0);
  const shown = await mgrpo(folder, "show", "one", "0/0/0");
  expect(shown).toMatchObject({ code: 0, stdout: expect.stringContaining("searcher") });
});

test("a run that is killed and resumed ends with the weights of an uninterrupted run", {
  timeout: TIMEOUT,
}, async () => {
  const killed = await signaledAtStep("SIGKILL", folder, ...train("killed", ...set("agents.main.share=3")));
  expect(killed).toMatchObject({ code: null });
  expect(await mgrpo(folder, "resume", "killed")).toMatchObject({ code: 0 });
  expect(reportOf(folder, "killed").agents["main"]?.sha256).toBe(reportOf(folder, "one").agents["main"]?.sha256);
});

test("a setting that differs from that of the policy's owner is refused before anything starts", {
  timeout: TIMEOUT,
}, async () => {
  const refused = await mgrpo(folder, ...train("no", ...set("agents.searcher.model=models/searcher")));
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toMatch(
    /agents\.searcher\.model: differs from that of 'main', whose policy it shares: remove it/,
  );
  expect(existsSync("runs/no")).toBe(false);
});

test("a shared policy can be an arm of a comparison", { timeout: TIMEOUT }, async () => {
  const both = set("agents.main.model=models/main", suites);
  const arms = ["compare", RELAY, "--arms", "shared-policy", "--seeds", "1", "--steps", "2", "--name", "shared"];
  const compared = await mgrpo(folder, ...arms, ...both);
  expect(compared).toMatchObject({ code: 0 });
  const csv = readFileSync("results/shared/steps.csv", "utf8");
  expect(csv.split("\n")[0]).toMatch(/entropy_main.*entropy_searcher/);
});
