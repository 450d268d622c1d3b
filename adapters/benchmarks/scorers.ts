/** @file Scores answers to a benchmark by its own rules, with a judge where they require one. */
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { parse } from "../../core/contracts/parse.ts";
import { originalWording } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Scorer } from "../../core/scorer.ts";
import { isExactMatch, judgeName } from "../judges/judged-rewards.ts";
import { type Judge, judgeCorrectness } from "../judges/vote.ts";
import { isGaiaMatch } from "./gaia-score.ts";
import { GymTask, gymScore } from "./reasoning-gym-score.ts";

/** GAIA's test split has this in place of a reference answer. */
const NO_REFERENCE = "?";

const gaia: Scorer = {
  isScored: ({ answer }) => answer !== NO_REFERENCE,
  correct: ({ answer: reference }, { answer }) => (isGaiaMatch(answer, reference) ? 1 : 0),
};

const reasoningGym: Scorer = {
  correct: ({ id, kind, answer: reference }, { answer }) =>
    gymScore(parse(GymTask, kind, `the kind of question '${id}'`), answer, reference),
};

/** Undefined if `hasOwnScorer` is false: the recipe's rewards, or those that an app returns, score the suite. `openJudge` is called only if a judge is needed. */
export function scorerOf(
  { benchmark }: Pick<EvaluationSuite, "benchmark">,
  criteria: string | undefined,
  openJudge: () => Judge,
): Scorer | undefined {
  if (benchmark === "gaia") return gaia;
  if (benchmark === "reasoning-gym") return reasoningGym;
  if (benchmark === "xbench") return judged(openJudge(), requireCriteria(criteria), isExactMatch);
  if (benchmark === "webwalkerqa") return judged(openJudge(), requireCriteria(criteria), () => false);
  return undefined;
}

function requireCriteria(criteria: string | undefined): string {
  if (criteria !== undefined) return criteria;
  throw new MgrpoError(
    "record-damaged",
    "questions.json has no criteria for a suite that a model judges: start the run again under another name",
  );
}

/** An answer that `isCorrect` accepts needs no judge, as in xbench's grader. */
function judged(judge: Judge, criteria: string, isCorrect: typeof isExactMatch): Scorer {
  return {
    judge: judgeName(judge.config, criteria),
    correct: (question, { answer }, context) => {
      if (isCorrect(answer, question.answer)) return 1;
      const input = { question: originalWording(question), reference: question.answer, answer: answer ?? "" };
      return judgeCorrectness(judge, criteria, input, context);
    },
  };
}
