/** @file `mgrpo judge check`: compares a judge with human labels of the same answers or human scores of the same work. */
import { judgeCriteria } from "../../adapters/judges/criteria.ts";
import { type Judge, judgeCorrectness, judgeQuality } from "../../adapters/judges/vote.ts";
import { openLanguageModel } from "../../adapters/llm/open.ts";
import { type JudgeConfig, totalCost, type Verdict } from "../../core/contracts/judge.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { agreementOf, areClose, scoreAgreementOf } from "../../core/training/agreement.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { inParallel } from "../../gpu-workers/parallel.ts";
import { openRecipe } from "../../recipes/registry.ts";
import { type AnswerLabel, readLabels, readTextFile, type WorkLabel } from "./labels.ts";
import { type Checked, printChecked } from "./print.ts";

/** Labels judged concurrently; each sends its votes in parallel. */
const CONCURRENT_LABELS = 8;

export interface JudgeOptions {
  readonly recipe: string;
  readonly judge?: string;
  readonly criteria?: string;
  readonly set: readonly string[];
}

export async function checkJudge(file: string, options: JudgeOptions): Promise<void> {
  const labels = readLabels(file);
  const config = await judgeOf(options);
  const judge = { model: openLanguageModel(config.model), config };
  const own = config.criteria ?? judgeCriteria();
  const text = options.criteria === undefined ? undefined : readTextFile(options.criteria);
  printChecked(
    labels.kind === "answers"
      ? await checkAnswers(judge, text ?? own.correct, labels.labels)
      : await checkWork(judge, text ?? own.expert, labels.labels),
  );
}

async function checkAnswers(judge: Judge, criteria: string, labels: readonly AnswerLabel[]): Promise<Checked> {
  const verdicts = await inParallel(labels, CONCURRENT_LABELS, ({ question, reference, answer }, i) =>
    judgeCorrectness(judge, criteria, { question, reference, answer }).catch(failureOn(i)),
  );
  const pairs = labels.map((label, i) => ({ label, verdict: verdicts[i] as Verdict }));
  return {
    kind: "answers",
    agreement: agreementOf(pairs.map(({ label, verdict }) => ({ label: label.correct, judged: verdict.score === 1 }))),
    disagreements: pairs.flatMap(({ label, verdict }) =>
      (verdict.score === 1) === label.correct
        ? []
        : { ...label, judged: verdict.score === 1, reason: reasonOf(verdict) },
    ),
    cost: totalCost(verdicts.flatMap(({ cost }) => cost ?? [])),
  };
}

async function checkWork(judge: Judge, criteria: string, labels: readonly WorkLabel[]): Promise<Checked> {
  const verdicts = await inParallel(labels, CONCURRENT_LABELS, ({ task, steps, report }, i) =>
    judgeQuality(judge, criteria, { input: { task, steps, report } }).catch(failureOn(i)),
  );
  const pairs = labels.map((label, i) => ({ label, verdict: verdicts[i] as Verdict }));
  return {
    kind: "work",
    agreement: scoreAgreementOf(pairs.map(({ label, verdict }) => ({ label: label.score, judged: verdict.score }))),
    disagreements: pairs.flatMap(({ label: { steps: _, ...label }, verdict }) =>
      areClose({ label: label.score, judged: verdict.score })
        ? []
        : { ...label, judged: verdict.score, reason: reasonOf(verdict) },
    ),
    cost: totalCost(verdicts.flatMap(({ cost }) => cost ?? [])),
  };
}

/** Adds the label's number to an error that concerns one label, which the user may have to change. Other errors concern every label. */
const failureOn =
  (index: number) =>
  (error: unknown): never => {
    if (!isMgrpoError(error, "judge-failed")) throw error;
    const { code, message, retryable } = error;
    throw new MgrpoError(code, `label ${index + 1}: ${message}`, { retryable, cause: error });
  };

/** The reason of the vote nearest to the verdict. The median of an even number of valid votes may be no vote's score. */
function reasonOf({ score, votes = [] }: Verdict): string {
  const distance = (vote: { readonly score: number }) => Math.abs(vote.score - score);
  return votes.toSorted((a, b) => distance(a) - distance(b))[0]?.reason ?? "";
}

/** The judge of the recipe's config with `--judge` and `--set judge.…` applied. */
async function judgeOf({ recipe: name, judge, set }: JudgeOptions): Promise<JudgeConfig> {
  const chosen = judge === undefined ? set : [...set, `judge.model=${judge}`];
  const recipe = await openRecipe(name);
  const config = resolveConfig(recipe, { run: "judge", recipe: name, arm: "mgrpo", seed: 1, set: chosen });
  if (config.judge) return config.judge;
  throw new MgrpoError(
    "config-invalid",
    `recipe '${name}' has no judge: name one with --judge openai:<base url>#<model>`,
  );
}
