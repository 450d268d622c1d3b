/** @file Evaluations: a suite's accuracy by kind over training, and every question's score, those that got worse first. */

import { useMemo } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import type { EvaluationsView, EvaluationView } from "../../views.ts";
import { usePulse, useView } from "../load.ts";
import { Chart } from "../parts/chart.tsx";
import type { Line } from "../parts/chart-props.ts";
import { percent } from "../parts/format.ts";
import { RunHeader } from "../parts/header.tsx";
import { QuestionNote } from "../parts/note.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Pagination } from "../parts/pagination.tsx";
import { questionScores } from "../parts/question-scores.ts";
import { ScrollTable } from "../parts/scroll-table.tsx";
import { evaluationsRevisionOf } from "../run-loader.ts";

const SHARE_BOUNDS: readonly [number, number] = [0, 1];
const QUESTIONS_PER_PAGE = 200;

export function EvaluationsPage() {
  const { params, query } = useRoute();
  const { run = "" } = params;
  const { route } = useLocation();
  const revision = evaluationsRevisionOf(usePulse(run).view);
  const loaded = useView<EvaluationsView>(`/api/runs/${run}/evaluations`, false, revision);
  const suites = [...new Set(loaded.view?.evaluations.map(({ suite }) => suite))];
  const suite = query["suite"] ?? suites[0] ?? "";
  const changeQuery = (change: Record<string, string>) =>
    route(`/runs/${run}/evaluations?${new URLSearchParams({ ...query, ...change })}`, true);
  const evaluations = useMemo(
    () => (loaded.view?.evaluations ?? []).filter((one) => one.suite === suite),
    [loaded.view, suite],
  );
  const lines = useMemo(() => kindLines(evaluations), [evaluations]);
  return (
    <>
      <RunHeader run={run} tab="/evaluations" />
      {noticeOf(loaded) ?? (
        <main>
          <h1>Evaluations</h1>
          {suites.length === 0 && <p class="faint">No evaluation is finished yet.</p>}
          <div class="bar">
            {suites.length > 0 && (
              <select
                aria-label="suite"
                value={suite}
                onChange={({ currentTarget }) => changeQuery({ suite: currentTarget.value, page: "0" })}
              >
                {suites.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
            {loaded.view?.hasCases && <a href={`/runs/${run}/cases`}>case studies</a>}
          </div>
          {evaluations.length > 0 && (
            <Chart title={`${suite}: correct answers by kind`} lines={lines} bounds={SHARE_BOUNDS} />
          )}
          {evaluations.length > 0 && loaded.view && (
            <Questions
              run={run}
              evaluations={evaluations}
              prompts={loaded.view.prompts}
              notes={loaded.view.notes}
              page={Number(query["page"] ?? 0)}
              changeQuery={changeQuery}
            />
          )}
        </main>
      )}
    </>
  );
}

function kindLines(evaluations: readonly EvaluationView[]): Line[] {
  const kinds = [...new Set(evaluations.flatMap(({ questions }) => questions.map(({ kind }) => kind)))];
  const share = ({ questions }: EvaluationView, kind: string | undefined) => {
    const own = questions.filter((one) => kind === undefined || one.kind === kind);
    const n = own.reduce((sum, one) => sum + one.n, 0);
    return n === 0 ? null : own.reduce((sum, one) => sum + one.correct, 0) / n;
  };
  return [
    { name: "all", color: "heldOut", points: evaluations.map((one) => [one.team, share(one, undefined)]) },
    ...kinds.map(
      (kind, color): Line => ({ name: kind, color, points: evaluations.map((one) => [one.team, share(one, kind)]) }),
    ),
  ];
}

interface QuestionsProps {
  readonly run: string;
  readonly evaluations: readonly EvaluationView[];
  readonly prompts: EvaluationsView["prompts"];
  readonly notes: EvaluationsView["notes"];
  readonly page: number;
  readonly changeQuery: (change: Record<string, string>) => void;
}

function Questions({ run, evaluations, prompts, notes, page, changeQuery }: QuestionsProps) {
  const rows = questionScores(evaluations).sort((a, b) => a.gain - b.gain);
  const worse = rows.filter(({ gain }) => gain < 0).length;
  const better = rows.filter(({ gain }) => gain > 0).length;
  const gained = better === 1 ? "1 question" : `${better} questions`;
  return (
    <>
      <p>
        {gained} got better, <b>{worse}</b> got worse{worse > 0 && "; those come first"}.
      </p>
      <ScrollTable
        label="questions"
        titles={["question", "kind", ...evaluations.map(({ team }) => `${team} ${team === 1 ? "step" : "steps"}`)]}
      >
        {rows.slice(page * QUESTIONS_PER_PAGE, (page + 1) * QUESTIONS_PER_PAGE).map(({ id, kind, shares }) => (
          <tr key={id}>
            <td>
              {prompts[id] ?? id}
              <QuestionNote note={notes[id] ?? null} />
            </td>
            <td class="faint">{kind}</td>
            {shares.map((share, i) => (
              <td key={evaluations[i]?.job} class={share === null ? "" : share > 0.5 ? "good" : "bad"}>
                <a href={`/runs/${run}/evaluations/${evaluations[i]?.job}?question=${encodeURIComponent(id)}`}>
                  {percent(share)}
                </a>
              </td>
            ))}
          </tr>
        ))}
      </ScrollTable>
      <Pagination
        page={page}
        pages={Math.ceil(rows.length / QUESTIONS_PER_PAGE)}
        onPageChange={(to) => changeQuery({ page: String(to) })}
      />
    </>
  );
}
