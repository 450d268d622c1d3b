/** @file The raw numbers of a comparison as CSV: steps, evaluations, and held-out questions before and after training. Pure. */
import { accuracyInterval, sumTallies } from "../../core/training/confidence-interval.ts";
import { comparedSuites } from "./measure.ts";
import { type ArmRuns, cumulativeTokens, evaluated } from "./summary.ts";

type Cell = string | number | null | undefined;
type CsvRecord = Readonly<{ [column: string]: Cell }>;

export function stepsCsv(arms: readonly ArmRuns[]): string {
  return csv(
    arms.flatMap(({ entry, runs }) =>
      runs.flatMap((run) => {
        const sampled = cumulativeTokens(run);
        return run.report.perStep.map((step): CsvRecord => {
          const perAgent = Object.entries(step.reward).flatMap(([agent, reward]): [string, Cell][] => [
            [`reward_${agent}`, reward],
            [`gradient_norm_${agent}`, step.training[agent]?.gradientNorm],
            [`entropy_${agent}`, step.training[agent]?.entropy],
            [`kl_${agent}`, step.training[agent]?.kl],
          ]);
          const perSub = Object.entries(step.calls).flatMap(([agent, histogram]): [string, Cell][] => [
            [`calls_${agent}`, meanCalls(histogram)],
            [`duplicated_${agent}`, step.duplicated[agent]],
            [`dropped_${agent}`, step.dropped[agent]],
          ]);
          return {
            arm: entry.label,
            seed: run.report.seed,
            step: step.step + 1,
            sampled_tokens: sampled[step.step + 1],
            seconds: step.seconds,
            // If all rollouts of a step are lost, its summary has 0 for both, although nothing was measured.
            correct: step.rollouts > 0 ? step.correct : null,
            well_formed: step.rollouts > 0 ? step.wellFormed : null,
            rollouts: step.rollouts,
            excluded: step.excluded,
            groups: step.groups,
            zero_variance: step.zeroVariance,
            ...Object.fromEntries([...perAgent, ...perSub]),
          };
        });
      }),
    ),
  );
}

export function evaluationsCsv(arms: readonly ArmRuns[]): string {
  return csv(
    arms.flatMap(({ entry, runs }) =>
      runs.flatMap((run) => {
        const sampled = cumulativeTokens(run);
        return run.heldOut.map(({ team, suite, temperature, closedBook, questions }): CsvRecord => {
          const { low, high } = accuracyInterval(questions);
          return {
            arm: entry.label,
            seed: run.report.seed,
            team,
            sampled_tokens: sampled[team],
            suite,
            temperature,
            closed_book: String(closedBook),
            ...sumTallies(questions),
            low,
            high,
          };
        });
      }),
    ),
  );
}

/**
 * One line per run, compared suite (`comparedSuites`) and question: how many rollouts and case-study checks it had before and after training, and
 * how many were correct.
 */
export function questionsCsv(arms: readonly ArmRuns[]): string {
  return csv(
    arms.flatMap(({ entry, runs }) =>
      runs.flatMap((run) =>
        comparedSuites([evaluated(run)]).flatMap(({ suite }) => {
          const at = (team: number) => run.heldOut.find((one) => one.suite === suite && one.team === team)?.questions;
          const after = at(run.report.steps);
          return (at(0) ?? []).map((before, i): CsvRecord => {
            const { question, kind } = before;
            const studies = Object.keys(before.studies).flatMap((study): [string, Cell][] => {
              const column = study.replaceAll(" ", "_");
              const [from, to] = [before.studies[study], after?.[i]?.studies[study]];
              return [
                [`${column}_before_n`, from?.n],
                [`${column}_before_right`, from?.correct],
                [`${column}_after_n`, to?.n],
                [`${column}_after_right`, to?.correct],
              ];
            });
            return {
              arm: entry.label,
              seed: run.report.seed,
              suite,
              question,
              kind,
              before_n: before.n,
              before_right: before.correct,
              after_n: after?.[i]?.n,
              after_right: after?.[i]?.correct,
              ...Object.fromEntries(studies),
            };
          });
        }),
      ),
    ),
  );
}

/** Columns are in order of first appearance. Missing values are empty cells. Quoted as in RFC 4180; lines end with a line feed alone. */
function csv(records: readonly CsvRecord[]): string {
  const columns = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const line = (cells: readonly Cell[]) => cells.map(csvCell).join(",");
  return [line(columns), ...records.map((record) => line(columns.map((column) => record[column])))]
    .join("\n")
    .concat("\n");
}

function csvCell(cell: Cell): string {
  const text =
    typeof cell === "number" ? String(Number.isInteger(cell) ? cell : Number(cell.toPrecision(8))) : (cell ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function meanCalls(histogram: readonly number[]): number | null {
  const rollouts = histogram.reduce((sum, count) => sum + count, 0);
  return rollouts === 0 ? null : histogram.reduce((sum, count, calls) => sum + count * calls, 0) / rollouts;
}
