/** @file Evaluations: accuracy per suite and per kind over time, and every question's score, those that got worse first. */

import { useMemo } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import type { EvaluationsView, EvaluationView } from "../../views.ts";
import { useView } from "../load.ts";
import { Chart } from "../parts/chart.tsx";
import type { Line } from "../parts/curve.ts";
import { percent } from "../parts/format.ts";
import { RunHeader } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Pagination } from "../parts/pagination.tsx";
import { questionScores } from "../parts/question-scores.ts";
import { Scroll } from "../parts/scroll.tsx";

const SHARE: readonly [number, number] = [0, 1];
/** Questions on a page. */
const PAGE = 200;

export function EvaluationsPage() {
  const { params, query } = useRoute();
  const { run = "" } = params;
  const { route } = useLocation();
  const loaded = useView<EvaluationsView>(`/api/runs/${run}/evaluations`);
  const suites = [...new Set(loaded.view?.evaluations.map(({ suite }) => suite))];
  const suite = query["suite"] ?? suites[0] ?? "";
  const turn = (change: Record<string, string>) =>
    route(`/runs/${run}/evaluations?${new URLSearchParams({ ...query, ...change })}`, true);
  const teams = useMemo(
    () => (loaded.view?.evaluations ?? []).filter((one) => one.suite === suite),
    [loaded.view, suite],
  );
  const lines = useMemo(() => kindLines(teams), [teams]);
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
                onChange={({ currentTarget }) => turn({ suite: currentTarget.value, page: "0" })}
              >
                {suites.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
            {loaded.view?.hasCases && <a href={`/runs/${run}/cases`}>case studies</a>}
          </div>
          {teams.length > 0 && <Chart title={`${suite}: correct answers by kind`} lines={lines} bounds={SHARE} />}
          {teams.length > 0 && loaded.view && (
            <Questions
              run={run}
              teams={teams}
              prompts={loaded.view.prompts}
              page={Number(query["page"] ?? 0)}
              turn={turn}
            />
          )}
        </main>
      )}
    </>
  );
}

function kindLines(teams: readonly EvaluationView[]): Line[] {
  const kinds = [...new Set(teams.flatMap(({ questions }) => questions.map(({ kind }) => kind)))];
  const share = ({ questions }: EvaluationView, kind: string | undefined) => {
    const own = questions.filter((one) => kind === undefined || one.kind === kind);
    const n = own.reduce((sum, one) => sum + one.n, 0);
    return n === 0 ? null : own.reduce((sum, one) => sum + one.correct, 0) / n;
  };
  return [
    { name: "all", color: "heldOut", points: teams.map((one) => [one.team, share(one, undefined)]) },
    ...kinds.map(
      (kind, color): Line => ({ name: kind, color, points: teams.map((one) => [one.team, share(one, kind)]) }),
    ),
  ];
}

interface QuestionsProps {
  readonly run: string;
  readonly teams: readonly EvaluationView[];
  readonly prompts: EvaluationsView["prompts"];
  readonly page: number;
  readonly turn: (change: Record<string, string>) => void;
}

function Questions({ run, teams, prompts, page, turn }: QuestionsProps) {
  const rows = questionScores(teams).sort((a, b) => a.gain - b.gain);
  const worse = rows.filter(({ gain }) => gain < 0).length;
  const better = rows.filter(({ gain }) => gain > 0).length;
  const gained = better === 1 ? "1 question" : `${better} questions`;
  return (
    <>
      <p>
        {gained} got better, <b>{worse}</b> got worse{worse > 0 && "; those come first"}.
      </p>
      <Scroll label="questions">
        <table>
          <thead>
            <tr>
              <th scope="col">question</th>
              <th scope="col">kind</th>
              {teams.map(({ team, job }) => (
                <th key={job} scope="col">
                  {team} {team === 1 ? "step" : "steps"}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(page * PAGE, (page + 1) * PAGE).map(({ id, kind, shares }) => (
              <tr key={id}>
                <td>{prompts[id] ?? id}</td>
                <td class="faint">{kind}</td>
                {shares.map((share, i) => (
                  <td key={teams[i]?.job} class={share === null ? "" : share > 0.5 ? "good" : "bad"}>
                    <a href={`/runs/${run}/evaluations/${teams[i]?.job}?question=${encodeURIComponent(id)}`}>
                      {percent(share)}
                    </a>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Pagination page={page} pages={Math.ceil(rows.length / PAGE)} onPageChange={(to) => turn({ page: String(to) })} />
    </>
  );
}
