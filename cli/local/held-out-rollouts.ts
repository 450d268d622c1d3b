/** @file Reads the scores of a run's evaluations, and the rollouts of held-out questions, from its store. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { type EvaluationSuite, questionsAsked } from "../../core/contracts/evaluation-suite.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { sortEvaluations } from "../../core/monitoring/team-evaluation.ts";
import type { Store } from "../../core/ports.ts";
import type { CaseStudy } from "../../core/recipe.ts";
import type { Tally } from "../../core/training/confidence-interval.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { CONVERSATION_DAYS } from "../../core/training/retention.ts";
import { readRollout, readStoredQuestions } from "../conversations.ts";
import { type HeldOutRollout, type HeldOutScores, scoreStudy } from "../held-out-scores.ts";
import { readJobs, readResult, suiteOf } from "./read-records.ts";

/**
 * All finished evaluations, benchmarks included, by team and then in the config's order of suites. Case studies are measured only on held-out
 * questions, with tools, of the untrained team and of the run's last (`last`).
 */
export async function readEvaluationScores(
  store: Store,
  config: RunConfig,
  last: number,
  caseStudies: readonly CaseStudy[],
): Promise<HeldOutScores[]> {
  const jobs = (await readJobs(store, config.run)).filter(({ state }) => state === "done");
  const scores = await Promise.all(
    jobs.map(async (job) => {
      const { name: suite, temperature, closedBook, benchmark } = suiteOf(config, job.suite);
      const isStudied = !closedBook && benchmark === undefined && (job.team === 0 || job.team === last);
      const measured = caseStudies.length > 0 && isStudied;
      const rollouts = measured ? await readRollouts(store, config, job) : [];
      const { questions } = await readResult(store, job);
      const ofQuestion = (id: string) => rollouts.filter(({ question }) => question.id === id);
      return {
        team: job.team,
        suite,
        temperature,
        closedBook,
        questions: questions.map((one) => ({
          ...one,
          studies: measured ? studiesOf(caseStudies, ofQuestion(one.question)) : {},
        })),
      };
    }),
  );
  return sortEvaluations(config, scores);
}

/** The rollouts of one evaluation on held-out questions, question by question, without those whose outcome is `failed`. */
export async function readRollouts(store: Store, config: RunConfig, job: JobRecord): Promise<HeldOutRollout[]> {
  const suite = suiteOf(config, job.suite);
  const { heldOut } = await readStoredQuestions(store, config.run);
  const asked = questionsAsked(suite, heldOut);
  const step = addressStep(config, job.team);
  const found = asked.flatMap((question, group) =>
    Array.from({ length: suite.runs }, async (_, rollout): Promise<HeldOutRollout[]> => {
      const address = { run: config.run, phase: `eval:${job.job}`, step, group, rollout };
      const stored = await readRollout(store, address);
      if (!stored) {
        throw new MgrpoError(
          "not-found",
          `${objectKeys.outcome(address)} or one of its invocations is not in the store: a deployment's store deletes conversations after ${CONVERSATION_DAYS} days`,
        );
      }
      const { outcome, invocations } = stored;
      if (outcome.status === "failed") return [];
      return [{ question, conversation: outcome.conversation, invocations }];
    }),
  );
  return (await Promise.all(found)).flat();
}

/** The suite that examples are taken from: on held-out questions, open-book, and preferably at a temperature above 0. */
export function shownSuite({ evaluation }: RunConfig): EvaluationSuite | undefined {
  const open = evaluation.suites.filter(({ closedBook, benchmark }) => !closedBook && !benchmark);
  return open.find(({ temperature }) => temperature > 0) ?? open[0];
}

function studiesOf(caseStudies: readonly CaseStudy[], rollouts: readonly HeldOutRollout[]): Record<string, Tally> {
  return Object.fromEntries(caseStudies.map((study) => [study.name, scoreStudy(study, rollouts)]));
}
