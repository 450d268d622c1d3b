/** @file The views of a run's evaluations: every question's score over time, the answers to one question, and the case studies. */
import { type EvaluationSuite, questionsAsked } from "../../core/contracts/evaluation-suite.ts";
import type { Question, QuestionSet } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import { suitePosition } from "../../core/monitoring/team-evaluation.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { openRecipe } from "../../recipes/registry.ts";
import type { AnswersView, CasesView, EvaluationsView } from "../../ui/views.ts";
import { readRollout, readStoredQuestions } from "../conversations.ts";
import { readJobs, readResult, suiteOf } from "../local/read-records.ts";
import { findRecipe, type NoteOf } from "../notes.ts";
import { loadCases } from "../show/cases.ts";
import type { Source } from "../show/source.ts";
import { heldOutTree } from "../show/tree.ts";
import { questionView } from "./step.ts";

export async function evaluationsView({ config, read }: Source): Promise<EvaluationsView> {
  const recipe = await findRecipe(config.recipe);
  return read(async (store) => {
    const done = (await readJobs(store, config.run)).filter(({ state }) => state === "done");
    const set = await readStoredQuestions(store, config.run);
    const asked = config.evaluation.suites.flatMap((suite) => shownQuestions(suite, set));
    const position = ({ suite }: { readonly suite: string }) => suitePosition(config, suite);
    const evaluations = await Promise.all(
      done.map(async (job) => {
        const { questions } = await readResult(store, job);
        return { job: job.job, team: job.team, suite: job.suite, questions };
      }),
    );
    return {
      evaluations: evaluations.sort((a, b) => position(a) - position(b) || a.team - b.team),
      hasCases: (recipe?.caseStudies ?? []).length > 0,
      prompts: Object.fromEntries(asked.map(({ id, prompt }) => [id, prompt])),
      notes: Object.fromEntries(
        asked.flatMap((question) => {
          const note = recipe?.note?.(question);
          return note === undefined ? [] : [[question.id, note]];
        }),
      ),
    };
  });
}

export async function casesView({ config, read }: Source): Promise<CasesView> {
  const recipe = await openRecipe(config.recipe);
  return { trees: await read((store) => loadCases(store, config, recipe)) };
}

/** The questions that a suite asks; none if they are encrypted, as their plain text exists only in memory. */
function shownQuestions(suite: EvaluationSuite, set: QuestionSet): readonly Question[] {
  const own = set.suites?.[suite.name];
  if (own) return own.canary === undefined ? questionsAsked(suite, own.questions) : [];
  return suite.benchmark ? [] : questionsAsked(suite, set.heldOut);
}

/** The rollouts of one question in one evaluation. */
export async function answersView(
  { config, read }: Source,
  job: string,
  question: string,
  noteOf: NoteOf,
): Promise<AnswersView> {
  return read(async (store) => {
    const record = (await readJobs(store, config.run)).find((one) => one.job === job);
    if (!record) throw new MgrpoError("not-found", `run '${config.run}' has no evaluation '${job}'`);
    const suite = suiteOf(config, record.suite);
    const asked = shownQuestions(suite, await readStoredQuestions(store, config.run));
    const group = asked.findIndex(({ id }) => id === question);
    const found = asked[group];
    if (!found) {
      const isHidden = suite.benchmark !== undefined && asked.length === 0;
      const why = isHidden ? "those of an encrypted benchmark are not shown" : "choose one from its list";
      throw new MgrpoError("not-found", `suite '${suite.name}' has no question '${question}' to show: ${why}`);
    }
    const missing = record.state === "done" ? EXPIRED : PENDING;
    const step = addressStep(config, record.team);
    const trees = await Promise.all(
      Array.from({ length: suite.runs }, async (_, rollout) => {
        const address = { run: config.run, phase: `eval:${job}`, step, group, rollout };
        const stored = await readRollout(store, address);
        if (!stored) return { title: `attempt ${rollout + 1}`, tags: [missing], children: [] };
        const { outcome, invocations } = stored;
        if (outcome.status === "failed") {
          return {
            title: `attempt ${rollout + 1}`,
            tags: [{ text: outcome.reason, tone: "bad" as const }],
            children: [],
          };
        }
        const { conversation } = outcome;
        return heldOutTree(`attempt ${rollout + 1}`, [], { question: found, conversation, invocations });
      }),
    );
    return { question: questionView(found, noteOf), trees };
  });
}

const EXPIRED = {
  text: "its conversation has expired: the store keeps conversations for a limited time",
  tone: "faint" as const,
};
const PENDING = { text: "not answered yet", tone: "faint" as const };
