/** @file Prints how well a judge agrees with people: as text on a terminal, as JSON Lines elsewhere. */
import colors from "picocolors";
import type { JudgeCost } from "../../core/contracts/judge.ts";
import { type Agreement, CLOSE_WITHIN, type ScoreAgreement } from "../../core/training/agreement.ts";
import type { ConfidenceInterval } from "../../core/training/confidence-interval.ts";
import { costText } from "../terminal/columns.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { hanging } from "../terminal/rows.ts";
import type { AnswerLabel, WorkLabel } from "./labels.ts";

type Disagreement<Label, Score> = Label & { readonly judged: Score; readonly reason: string };

export type JudgeCheck = { readonly cost: JudgeCost | undefined } & (
  | {
      readonly kind: "answers";
      readonly agreement: Agreement;
      readonly disagreements: readonly Disagreement<AnswerLabel, boolean>[];
    }
  | {
      readonly kind: "work";
      readonly agreement: ScoreAgreement;
      readonly disagreements: readonly Disagreement<Omit<WorkLabel, "steps">, number>[];
    }
);

export function printJudgeCheck(check: JudgeCheck): void {
  const { agreement, disagreements, cost } = check;
  if (!process.stdout.isTTY) {
    for (const one of disagreements) console.log(JSON.stringify({ kind: "disagreement", ...one }));
    console.log(JSON.stringify({ kind: "agreement", ...agreement, cost }));
    return;
  }
  for (const line of check.kind === "answers" ? answerLines(check) : workLines(check)) console.log(line);
  if (cost) console.log(`  cost       ${costText(cost)}`);
}

const percent = (share: number) => (100 * share).toFixed(1);

function answerLines({ agreement, disagreements }: Extract<JudgeCheck, { kind: "answers" }>): string[] {
  const { n, accuracy, interval, kappa, confusion } = agreement;
  const word = (correct: boolean) => (correct ? "correct" : "wrong");
  return [
    ...disagreements.flatMap(({ id, question, reference, answer, correct, judged, reason }) => [
      "",
      ...hanging(
        "  ",
        `${colors.bold(stripControlCharacters(id ?? question))}  labeled ${word(correct)}, judged ${word(judged)}`,
      ),
      ...hanging("    reference  ", stripControlCharacters(reference)),
      ...hanging("    answer     ", stripControlCharacters(answer)),
      ...hanging("    ", colors.dim(stripControlCharacters(reason))),
    ]),
    `\n  agreement  ${colors.green(`${percent(accuracy)}%`)} [${percent(interval.low)}, ${percent(interval.high)}] of ${n}`,
    `  kappa      ${kappa === null ? "- (all labels and verdicts are the same)" : kappa.toFixed(2)}`,
    "                     judged correct   judged wrong",
    ...Object.entries(confusion).map(
      ([label, counts]) =>
        `  labeled ${label.padEnd(7)}  ${String(counts.correct).padStart(16)}${String(counts.wrong).padStart(15)}`,
    ),
  ];
}

function workLines({ agreement, disagreements }: Extract<JudgeCheck, { kind: "work" }>): string[] {
  const { n, meanAbsoluteError, meanError, close, closeInterval, correlation, correlationInterval } = agreement;
  const between = (interval: ConfidenceInterval | null, shown: (value: number) => string) =>
    interval ? ` [${shown(interval.low)}, ${shown(interval.high)}]` : "";
  const two = (value: number) => value.toFixed(2);
  const size = two(Math.abs(meanError));
  const bias =
    size === two(0) ? "neither too strict nor too lenient" : `${size} too ${meanError < 0 ? "strict" : "lenient"}`;
  return [
    ...disagreements.flatMap(({ id, task, report, score, judged, reason }) => [
      "",
      ...hanging(
        "  ",
        `${colors.bold(stripControlCharacters(id ?? task))}  labeled ${two(score)}, judged ${two(judged)}`,
      ),
      ...hanging("    report     ", stripControlCharacters(report)),
      ...hanging("    ", colors.dim(stripControlCharacters(reason))),
    ]),
    "",
    ...hanging(
      "  mean absolute error  ",
      `${colors.green(meanAbsoluteError.toFixed(3))} over ${n}; on average the judge is ${bias}`,
    ),
    `  within ${CLOSE_WITHIN}           ${percent(close)}%${between(closeInterval, percent)}`,
    `  correlation          ${correlation === null ? "- (all labels or all verdicts are the same)" : two(correlation)}${between(correlationInterval, two)}`,
  ];
}
