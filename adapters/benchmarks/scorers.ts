/** @file Scores answers to a benchmark by its own rules, with a judge where they require one. */
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { originalWording } from "../../core/contracts/question.ts";
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
  correct: ({ kind, answer: reference }, { answer }) => gymScore(GymTask.parse(kind), answer, reference),
};

/** Undefined if the recipe's own rewards do the scoring. `judge` is opened only if it is needed. */
export function scorerOf(
  { benchmark }: Pick<EvaluationSuite, "benchmark">,
  criteria: string | undefined,
  judge: () => Judge,
): Scorer | undefined {
  if (benchmark === "gaia") return gaia;
  if (benchmark === "reasoning-gym") return reasoningGym;
  if (benchmark === "xbench") return judged(judge(), criteria ?? "", isExactMatch);
  if (benchmark === "webwalkerqa") return judged(judge(), criteria ?? "", () => false);
  return undefined;
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
