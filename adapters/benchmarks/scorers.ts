/** @file How answers to a benchmark are scored: by its own rules, a judge where those ask one. */
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { wordingOf } from "../../core/contracts/question.ts";
import type { Scorer } from "../../core/scorer.ts";
import { isExactMatch, judgeName } from "../judges/judged-rewards.ts";
import { type Judge, judgeCorrectness } from "../judges/vote.ts";
import { isGaiaMatch } from "./gaia-score.ts";

/** What stands for the reference in GAIA's test split. */
const NO_REFERENCE = "?";

const gaia: Scorer = {
  isScored: ({ answer }) => answer !== NO_REFERENCE,
  correct: ({ answer: reference }, { answer }) => (isGaiaMatch(answer, reference) ? 1 : 0),
};

/** Undefined where the recipe's own rewards score. `judge` is opened only where one is asked. */
export function scorerOf(
  { benchmark }: Pick<EvaluationSuite, "benchmark">,
  criteria: string | undefined,
  judge: () => Judge,
): Scorer | undefined {
  if (benchmark === "gaia") return gaia;
  if (benchmark === "xbench") return judged(judge(), criteria ?? "", isExactMatch);
  if (benchmark === "webwalkerqa") return judged(judge(), criteria ?? "", () => false);
  return undefined;
}

/** `isPlain`: right without asking, as xbench's grader does. */
function judged(judge: Judge, criteria: string, isPlain: typeof isExactMatch): Scorer {
  return {
    judge: judgeName(judge.config, criteria),
    correct: (question, { answer }) =>
      isPlain(answer, question.answer)
        ? 1
        : judgeCorrectness(judge, criteria, {
            question: wordingOf(question),
            reference: question.answer,
            answer: answer ?? "",
          }),
  };
}
