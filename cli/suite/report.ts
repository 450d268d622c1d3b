/** @file What a team made of a suite: `result.json` beside the submission files. Its schema is the contract. */
import { join } from "node:path";
import * as z from "zod";
import { groupsOf } from "../../adapters/benchmarks/groups.ts";
import { submissionFiles } from "../../adapters/benchmarks/submission.ts";
import { unpriced } from "../../core/contracts/budget.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { Benchmark, type EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { JudgeCost } from "../../core/contracts/judge.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { type SuiteQuestions, Unasked } from "../../core/contracts/question.ts";
import { EvaluationScore, type JobRecord, ToolSpendingRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import { readBills } from "../../core/training/bills.ts";
import { accuracyInterval, sumTallies } from "../../core/training/confidence-interval.ts";
import { decryptedObjects } from "../../core/training/encrypted-objects.ts";
import { valueAt } from "../../core/training/resolve-config.ts";
import { totalUsd } from "../../core/training/run-budget.ts";
import { resultOf } from "../local/evaluate-team.ts";
import { writeAtomically } from "../local/run-folder.ts";
import { readOutcome } from "../show/conversations.ts";

export const SuiteReport = EvaluationScore.extend({
  kind: z.literal("evaluation"),
  /** The run or folder whose team it is. */
  team: z.string(),
  suite: z.string(),
  benchmark: Benchmark.exactOptional(),
  /** pass@1 of the parts that the benchmark reports by themselves, over all runs. */
  groups: z.array(EvaluationScore.omit({ runs: true }).extend({ group: z.string() })),
  /** Questions lost to infrastructure, once per run that lost them: not counted. */
  lost: z.array(z.string()),
  /** Questions of the data that were not asked, since this team could not answer them: neither right nor wrong. */
  unasked: z.array(Unasked),
  /** Why, without repetitions. */
  reasons: z.array(z.string()),
  judged: JudgeCost.exactOptional(),
  /** What all of it was paid by the prices in its config, with answers that came to nothing, and what was asked again. */
  spent: z.strictObject({
    usd: z.number(),
    agentsUsd: z.number(),
    judgesUsd: z.number(),
    toolsUsd: z.number(),
    /** Requests that tools' backends really got. */
    toolCalls: z.int(),
    /** Settings that would price somebody who was asked, and are missing: he is in no sum. */
    unpriced: z.array(z.string()),
  }),
  /** Pages and search results kept from the agents, since they would give a benchmark away. */
  blocked: z.int(),
  /** Files for the leaderboard, in the same folder. */
  submissions: z.array(z.string()),
});
export type SuiteReport = z.infer<typeof SuiteReport>;

export async function reportSuite(
  store: Store,
  folder: string,
  team: string,
  { name, benchmark, questions: first }: EvaluationSuite,
  set: SuiteQuestions,
  job: JobRecord,
): Promise<SuiteReport> {
  const asked = { ...set, questions: set.questions.slice(0, first || set.questions.length) };
  const { n, correct, runs, interval, lost, reasons = [], judged, questions } = await resultOf({ job, store });
  const groups = new Map<string, typeof questions>();
  for (const [i, question] of asked.questions.entries()) {
    for (const group of groupsOf(benchmark, question)) {
      groups.set(group, [...(groups.get(group) ?? []), ...questions.slice(i, i + 1)]);
    }
  }
  const outcomes = await readOutcomes(store, job, asked.questions.length);
  const said = outcomes.map((ofRun) => ofRun.map((one) => (one?.status === "finished" ? one.conversation : undefined)));
  const files = submissionFiles(benchmark, asked, said);
  for (const [file, content] of files) writeAtomically(join(folder, file), content);
  const { blocked, ...spent } = await readSpent(store, job.run, judged !== undefined);
  const report = {
    ...{ kind: "evaluation", team, suite: name, ...(benchmark && { benchmark }), n, correct, runs, interval },
    groups: [...groups].map(([group, scores]) => ({
      group,
      ...sumTallies(scores),
      interval: accuracyInterval(scores),
    })),
    ...{ unasked: set.unasked ?? [], lost, reasons },
    ...{ ...(judged && { judged }), spent, blocked, submissions: [...files.keys()] },
  };
  const checked = parse(SuiteReport, report, `report of suite '${name}'`);
  writeAtomically(join(folder, "result.json"), `${JSON.stringify(checked, null, 2)}\n`);
  return checked;
}

/** By the records of what was paid, and the config that it was paid by. */
async function readSpent(
  { objects, table }: Store,
  run: string,
  isJudged: boolean,
): Promise<SuiteReport["spent"] & { blocked: number }> {
  const key = objectKeys.config(run);
  const config = parseJson(RunConfig, (await objects.get(key)) ?? "", key);
  const item = await table.get(tableKeys.toolSpending(run));
  const tools = item && parse(ToolSpendingRecord, item, `TOOLS of run '${run}'`);
  const bills = await readBills(table, run);
  const models = ["reason", "extract"].filter(
    (name) => valueAt(config.tools, name) && !valueAt(config.tools, `${name}.usdPerMillionTokens`),
  );
  return {
    usd: totalUsd(bills),
    ...bills,
    toolCalls: tools?.calls ?? 0,
    blocked: tools?.blocked ?? 0,
    unpriced: [
      ...unpriced({ agents: config.agents, ...(isJudged && config.judge && { judge: config.judge }) }).map((path) =>
        path.join("."),
      ),
      ...models.map((name) => `tools.${name}.usdPerMillionTokens`),
    ],
  };
}

/** [run][question]. */
async function readOutcomes(store: Store, { run, job, team, runs }: JobRecord, count: number) {
  const objects = decryptedObjects(store.objects);
  return Promise.all(
    runs.map((_, rollout) =>
      Promise.all(
        Array.from({ length: count }, (_question, group) =>
          readOutcome({ objects }, { run, phase: `eval:${job}`, step: team, group, rollout }),
        ),
      ),
    ),
  );
}
