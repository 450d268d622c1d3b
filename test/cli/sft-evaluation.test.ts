/** @file Demonstrations from an evaluation: the correct answers of a team behind an API to the user's own questions. Benchmarks are refused. */
import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { readJobs } from "../../cli/local/read-records.ts";
import { correctConversations } from "../../cli/sft/correct-rollouts.ts";
import { openDemonstrations } from "../../cli/sft/sources.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult, type ObjectCreated } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { reopenJob } from "../../core/training/job-writes.ts";
import { openRecipe } from "../../recipes/registry.ts";
import { replyWith, startOpenAiServer } from "../fakes/openai-server.ts";
import { projectOfFile, RELAY } from "./command-line.ts";
import { printedJson } from "./printed.ts";
import { config } from "./records.ts";

const folder = projectOfFile();
const server = await startOpenAiServer(({ body }) => {
  const question = body.messages.find(({ role }) => role === "user")?.content ?? "";
  return replyWith(question.includes("Alby") ? "here" : "elsewhere");
});
afterEach(() => vi.restoreAllMocks());
afterAll(() => server.close());

const questions = join(folder, "towns.jsonl");
const towns = ["Alby", "Corby"].map((id) => JSON.stringify({ id, prompt: `Where is ${id}?`, answer: "here" }));
writeFileSync(questions, towns.join("\n"));

async function evaluated(results: string, ...suite: string[]): Promise<string> {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const liveness = 'liveness={"heartbeatSeconds":0.2,"leaseSeconds":20,"pollSeconds":0.02}';
  const team = [`openai:${server.url}#planner`, "--recipe", RELAY, "--arm", "mgrpo"];
  await printedJson("eval", ...team, ...suite, "--results", join(folder, results), "--set", liveness);
  const [only = expect.fail()] = readdirSync(join(folder, results));
  return join(folder, results, only);
}

/** The folder of an evaluation of the user's own questions. */
let from: string;
beforeAll(async () => {
  from = await evaluated("towns", "--suite", questions, "--runs", "2");
});

test("only correct answers become demonstrations", async () => {
  expect(await correctConversations(from, 0.9)).toMatchObject([
    {
      agent: "main",
      demonstration: { prompt: "Where is Alby?", turns: [{ text: "<answer>here</answer>", responses: [] }] },
    },
  ]);
});

test("an agent that no correct rollout called has no demonstrations, and the error names --agent", async () => {
  const source = await openDemonstrations(await openRecipe("atlas"), config, { fromRun: from, minReward: 0.9 });
  const searcher = {
    agent: "searcher",
    config: config.agents["main"] ?? expect.fail(),
    toolbox: { parameters: new Map() },
  };
  expect(() => source(searcher, "")).toThrow(
    /no conversation in which agent 'searcher' gave an answer, .*: lower --min-reward, or train another agent with --agent$/,
  );
});

test("a wrong answer is not a demonstration, however low --min-reward is", async () => {
  expect(await correctConversations(from, 0)).toMatchObject([{ demonstration: { prompt: "Where is Alby?" } }]);
});

test("a question gives no demonstration if one of its answers has no score", async () => {
  const unscored = join(folder, "unscored");
  cpSync(from, unscored, { recursive: true });
  await removeScores(unscored);
  expect(await correctConversations(unscored, 0.9)).toEqual([]);
  const source = await openDemonstrations(await openRecipe("atlas"), config, { fromRun: unscored, minReward: 0 });
  const main = { agent: "main", config: config.agents["main"] ?? expect.fail(), toolbox: { parameters: new Map() } };
  expect(() => source(main, "")).toThrow(/in a correct rollout with a reward of at least 0: name another run$/);
});

/** Leaves one score of each question, as if the judge had failed on the other answer. */
async function removeScores(evaluation: string): Promise<void> {
  const idle = async () => {};
  const handlers = { objectCreated: idle, tick: idle };
  const cloud = await startLocalCloud({ directory: join(evaluation, "cloud"), handlers });
  try {
    const { objects } = cloud.direct;
    const [job = expect.fail()] = await readJobs(cloud.direct, "eval");
    const key = objectKeys.evaluation("eval", job.job);
    const result = parseJson(EvaluationResult, (await objects.get(key)) ?? expect.fail(), key);
    const scores = result.questions.map((one) => ({ ...one, n: 1, correct: Math.min(one.correct, 1) }));
    await objects.delete([key]);
    await objects.commit(key, new TextEncoder().encode(JSON.stringify({ ...result, questions: scores })));
  } finally {
    await cloud.close();
  }
}

test("reading an evaluation leaves its unhandled events to the command that resumes it", async () => {
  const interrupted = join(folder, "interrupted");
  cpSync(from, interrupted, { recursive: true });
  const directory = join(interrupted, "cloud");
  const writing = await startLocalCloud({ directory });
  await writing.direct.objects.commit("left", new TextEncoder().encode("1"));
  await writing.close();
  expect(await correctConversations(interrupted, 0.9)).toHaveLength(1);
  const keys: string[] = [];
  const handlers = {
    objectCreated: async ({ detail }: ObjectCreated) => void keys.push(detail.object.key),
    tick: async () => {},
  };
  const resuming = await startLocalCloud({ directory, handlers });
  await expect.poll(() => keys).toContain("left");
  await resuming.close();
});

test("an unfinished evaluation is refused with the advice to run its command again", async () => {
  const unfinished = join(folder, "unfinished");
  cpSync(from, unfinished, { recursive: true });
  const cloud = await startLocalCloud({ directory: join(unfinished, "cloud") });
  const [job = expect.fail()] = await readJobs(cloud.direct, "eval");
  await cloud.direct.table.update(reopenJob(job));
  await cloud.close();
  await expect(correctConversations(unfinished, 0.9)).rejects.toThrow(
    `--from-run ${unfinished}: the evaluation has not finished: run its command again`,
  );
});

test("the folder of a run is not an evaluation: the error says to give a run by its name", async () => {
  const run = join(folder, "a-run");
  mkdirSync(join(run, "cloud"), { recursive: true });
  await expect(correctConversations(run, 0.9)).rejects.toThrow(
    `--from-run ${run}: no evaluation has begun in this folder; a run is given by its name`,
  );
});

test("a --min-reward above 1 is refused, since an evaluation has no rewards", async () => {
  await expect(correctConversations(from, 1.2)).rejects.toThrow("--min-reward 1.2: an evaluation records whether");
});

test("a published benchmark is not trained on", async () => {
  const data = resolve(import.meta.dirname, "../fixtures/benchmarks/gaia");
  const gaia = await evaluated("gaia", "--suite", "gaia", "--data", data, "--attachments", "all", "--runs", "1");
  await expect(correctConversations(gaia, 0)).rejects.toThrow(
    "asks questions of benchmark gaia, which must not be trained on",
  );
});
