/** @file The result of a team on one suite: `result.json`, with the submission files next to it. The schema is the contract. */
import { join } from "node:path";
import * as z from "zod";
import { categoriesOf } from "../../adapters/benchmarks/categories.ts";
import { submissionFiles } from "../../adapters/benchmarks/submission.ts";
import { unpriced } from "../../core/contracts/budget.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import {
  Benchmark,
  type EvaluationSuite,
  hasOwnScorer,
  needsJudge,
  questionsAsked,
} from "../../core/contracts/evaluation-suite.ts";
import { JudgeCost } from "../../core/contracts/judge.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { SkippedQuestion, type SuiteQuestions } from "../../core/contracts/question.ts";
import { EvaluationScore, type JobRecord } from "../../core/contracts/records.ts";
import { ToolSpendingRecord } from "../../core/contracts/spending.ts";
import type { Store } from "../../core/ports.ts";
import { readApiSpending } from "../../core/training/api-spending.ts";
import { accuracyInterval, sumTallies } from "../../core/training/confidence-interval.ts";
import { decryptedObjects } from "../../core/training/encrypted-objects.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { valueAt } from "../../core/training/resolve-config.ts";
import { apiUsd } from "../../core/training/run-budget.ts";
import { readOutcome } from "../conversations.ts";
import { resultOf } from "../local/evaluate-team.ts";
import { writeAtomically } from "../local/written-files.ts";

export const SuiteReport = EvaluationScore.extend({
  kind: z.literal("evaluation"),
  /** The run, file, folder or model that was evaluated. */
  team: z.string(),
  suite: z.string(),
  benchmark: Benchmark.exactOptional(),
  /** pass@1 over all runs, for each category of questions that the benchmark reports separately. */
  groups: z.array(EvaluationScore.omit({ runs: true }).extend({ group: z.string() })),
  /** Questions lost to infrastructure or a failing judge, once per run that lost them. They are not counted. */
  lost: z.array(z.string()),
  /** Questions that were not asked because this team cannot answer them. They count neither as correct nor as wrong. */
  unasked: z.array(SkippedQuestion),
  /** Distinct reasons for the losses. */
  reasons: z.array(z.string()),
  judged: JudgeCost.exactOptional(),
  /** Total cost at the prices in the config, including failed and repeated attempts. */
  spent: z.strictObject({
    usd: z.number(),
    agentsUsd: z.number(),
    judgesUsd: z.number(),
    toolsUsd: z.number(),
    /** Requests of the tools to their backends, and those refused at a limit. */
    toolCalls: z.int(),
    /** Missing price settings of models that the evaluation could call: their cost is in no sum. */
    unpriced: z.array(z.string()),
  }),
  /** Pages and search results withheld from the agents because they would leak the benchmark. */
  blocked: z.int(),
  /** Names of the submission files, in the same folder. */
  submissions: z.array(z.string()),
});
export type SuiteReport = z.infer<typeof SuiteReport>;

/** Reads the results of a finished job from the store, and writes the report and the submission files into `folder`. */
export async function reportSuite(
  store: Store,
  folder: string,
  team: string,
  suite: EvaluationSuite,
  set: SuiteQuestions,
  job: JobRecord,
): Promise<SuiteReport> {
  const { name, benchmark } = suite;
  const asked = { ...set, questions: questionsAsked(suite, set.questions) };
  const config = await readRunConfig(store, job.run);
  const result = await resultOf({ job, store });
  const { n, correct, runs, interval, lost, reasons = [], judged } = result;
  const files = submissionFiles(benchmark, asked, await readConversations(store, config, job, asked.questions.length));
  for (const [file, content] of files) writeAtomically(join(folder, file), content);
  const { blocked, ...spent } = await readSpent(store, config, mayHaveAskedJudge(suite, result));
  const report = {
    kind: "evaluation",
    team,
    suite: name,
    ...(benchmark && { benchmark }),
    n,
    correct,
    runs,
    interval,
    groups: categoryScores(benchmark, asked, result),
    unasked: set.unasked ?? [],
    lost,
    reasons,
    ...(judged && { judged }),
    spent,
    blocked,
    submissions: [...files.keys()],
  };
  const checked = parse(SuiteReport, report, `report of suite '${name}'`);
  writeAtomically(join(folder, "result.json"), `${JSON.stringify(checked, null, 2)}\n`);
  return checked;
}

async function readRunConfig({ objects }: Store, run: string): Promise<RunConfig> {
  const key = objectKeys.config(run);
  return parseJson(RunConfig, (await objects.get(key)) ?? "", key);
}

function categoryScores(
  benchmark: EvaluationSuite["benchmark"],
  asked: SuiteQuestions,
  { questions: scores }: EvaluationResult,
): SuiteReport["groups"] {
  const byCategory = new Map<string, typeof scores>();
  for (const [i, question] of asked.questions.entries()) {
    for (const category of categoriesOf(benchmark, question)) {
      byCategory.set(category, [...(byCategory.get(category) ?? []), ...scores.slice(i, i + 1)]);
    }
  }
  return [...byCategory].map(([category, own]) => ({
    group: category,
    ...sumTallies(own),
    interval: accuracyInterval(own),
  }));
}

/** A recipe's rewards need not ask its judge. Verdicts show that they do, and a lost answer may be one for which the judge gave none. */
const mayHaveAskedJudge = (suite: EvaluationSuite, { judged, lost }: EvaluationResult): boolean =>
  needsJudge(suite) || judged !== undefined || (!hasOwnScorer(suite) && lost.length > 0);

/** The recorded costs, and the missing price settings that leave some cost unknown. */
async function readSpent(
  { table }: Store,
  config: RunConfig,
  askedJudge: boolean,
): Promise<SuiteReport["spent"] & { blocked: number }> {
  const item = await table.get(tableKeys.toolSpending(config.run));
  const tools = item && parse(ToolSpendingRecord, item, `TOOLS of run '${config.run}'`);
  const apiSpending = await readApiSpending(table, config.run);
  const callable = { agents: config.agents, ...(askedJudge && config.judge && { judge: config.judge }) };
  const toolModels = ["reason", "extract"].filter(
    (name) => valueAt(config.tools, name) && !valueAt(config.tools, `${name}.usdPerMillionTokens`),
  );
  return {
    usd: apiUsd(apiSpending),
    ...apiSpending,
    toolCalls: tools?.calls ?? 0,
    blocked: tools?.blocked ?? 0,
    unpriced: [
      ...unpriced(callable).map((path) => path.join(".")),
      ...toolModels.map((name) => `tools.${name}.usdPerMillionTokens`),
    ],
  };
}

/** Conversations of the main agent, [run][question]; undefined where a question has none. */
async function readConversations(store: Store, config: RunConfig, job: JobRecord, count: number) {
  const objects = decryptedObjects(store.objects);
  const read = async (group: number, rollout: number) => {
    const step = addressStep(config, job.team);
    const outcome = await readOutcome({ objects }, { run: job.run, phase: `eval:${job.job}`, step, group, rollout });
    return outcome?.status === "finished" ? outcome.conversation : undefined;
  };
  const questions = Array.from({ length: count }, (_, group) => group);
  return Promise.all(job.runs.map((_, rollout) => Promise.all(questions.map((group) => read(group, rollout)))));
}
