/** @file Runs side by side: reward curves over steps, tokens, time or cost, one per arm or per seed; held-out scores; settings that differ. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import type { ComparedArm, CompareView, Measured } from "../../compare-view.ts";
import { differingSettings } from "../../settings.ts";
import type { RunView } from "../../views.ts";
import { useView } from "../load.ts";
import { Chart } from "../parts/chart.tsx";
import { AXES, type Axis, comparedCharts } from "../parts/comparison.ts";
import { interval, percent } from "../parts/format.ts";
import { Header } from "../parts/header.tsx";
import { Notice } from "../parts/notice.tsx";
import { ScrollTable } from "../parts/scroll-table.tsx";
import { server } from "../source.ts";

const NO_ARMS: readonly ComparedArm[] = [];

export function ComparePage() {
  const { query, route } = useLocation();
  const names = [...new Set((query["runs"] ?? "").split(",").filter(Boolean))];
  const axis = Object.keys(AXES).find((one): one is Axis => one === query["x"]) ?? "step";
  const merged = query["seeds"] !== "apart";
  const { runs, failure } = useRunViews(names.join(","));
  const comparison = useView<CompareView>(`/api/compare?runs=${names.join(",")}`);
  const arms = comparison.view?.arms ?? NO_ARMS;
  const changeQuery = (change: Record<string, string>) =>
    route(`/compare?${new URLSearchParams({ ...query, ...change })}`, true);
  const { charts, omitted } = useMemo(() => comparedCharts(runs, arms, axis, merged), [runs, arms, axis, merged]);
  const problem = failure ?? comparison.failure?.message;
  if (problem !== undefined) return <Notice text={problem} />;
  if (runs.length < names.length || !comparison.view) return <Notice text="Loading …" />;
  return (
    <>
      <Header crumbs={[{ text: `compare ${runs.length} runs` }]} />
      <main>
        <h1>{runs.map(({ run }) => run).join(", ")}</h1>
        <div class="bar">
          <select
            aria-label="horizontal axis"
            value={axis}
            onChange={({ currentTarget }) => changeQuery({ x: currentTarget.value })}
          >
            {Object.entries(AXES).map(([value, label]) => (
              <option key={value} value={value}>
                over {label}
              </option>
            ))}
          </select>
          <select
            aria-label="seeds"
            value={merged ? "" : "apart"}
            onChange={({ currentTarget }) => changeQuery({ seeds: currentTarget.value })}
          >
            <option value="">average the seeds of an arm</option>
            <option value="apart">each seed by itself</option>
          </select>
        </div>
        {omitted.length > 0 && (
          <p class="faint">
            Not drawn: {omitted.join(", ")}, since {AXES[axis]} are not known for all of their steps.
          </p>
        )}
        <div class="charts">
          {charts.map((one) => (
            <Chart key={one.title} {...one} />
          ))}
        </div>
        <ArmScores view={comparison.view} />
        <Evaluations runs={runs} />
        <Settings runs={runs} />
      </main>
    </>
  );
}

const COLUMNS = [
  ["before", "before", false],
  ["after", "after", false],
  ["gain", "gain", true],
  ["againstFirst", "after, minus the first arm's", true],
] as const;

/** Each arm's scores on each suite: before and after training, the gain, and the difference from the first arm after training. */
function ArmScores({ view: { arms, leftOut } }: { readonly view: CompareView }) {
  const rows = arms.flatMap(({ label, runs, measured }) => measured.map((one) => ({ label, runs, ...one })));
  return (
    <section>
      <h2>Accuracy, in percent</h2>
      {leftOut.map((reason) => (
        <p key={reason} class="warning">
          {reason}
        </p>
      ))}
      {leftOut.length === 0 && rows.length === 0 && (
        <p class="faint">No run was evaluated before and after training.</p>
      )}
      <ScrollTable
        label="accuracy"
        className={rows.length === 0 ? "none" : "dense"}
        titles={["arm", "seeds", "suite", ...COLUMNS.map(([, title]) => title)]}
      >
        {rows.map(({ label, runs, suite, scored, ...measured }) => (
          <tr key={`${label} ${suite}`}>
            <td>{label}</td>
            <td title={runs.join(", ")}>{scored === runs.length ? scored : `${scored} of ${runs.length}`}</td>
            <td>{suite}</td>
            {COLUMNS.map(([key, , isDifference]) => (
              <td key={key}>{cellOf(measured, key, isDifference)}</td>
            ))}
          </tr>
        ))}
      </ScrollTable>
      <p class={rows.length === 0 ? "none" : "faint"}>
        Brackets are 95% intervals over questions and seeds, or over questions alone if there is one seed. A seed counts
        if its run has a score after training; for an unfinished run, this is the score of its newest evaluation.
        Differences are paired by seed and question.
      </p>
    </section>
  );
}

function cellOf(
  measured: Pick<Measured, (typeof COLUMNS)[number][0]>,
  key: (typeof COLUMNS)[number][0],
  isDifference: boolean,
) {
  const estimate = measured[key];
  return estimate ? interval(estimate, isDifference) : "–";
}

interface LoadedRuns {
  readonly runs: readonly RunView[];
  readonly failure?: string;
}

const NO_RUNS: LoadedRuns = { runs: [] };

function useRunViews(names: string): LoadedRuns {
  const [loaded, setLoaded] = useState<LoadedRuns & { readonly names?: string }>(NO_RUNS);
  useEffect(() => {
    const abort = new AbortController();
    const load = (name: string) => server.load<RunView>(`/api/runs/${name}`, abort.signal);
    Promise.all(names.split(",").filter(Boolean).map(load)).then(
      (views) => {
        const failure = views.find((one) => one.failure)?.failure?.message;
        setLoaded({ names, runs: views.flatMap(({ view }) => view ?? []), ...(failure !== undefined && { failure }) });
      },
      () => {},
    );
    return () => abort.abort();
  }, [names]);
  return loaded.names === names ? loaded : NO_RUNS;
}

function Evaluations({ runs }: { readonly runs: readonly RunView[] }) {
  const suites = [...new Set(runs.flatMap(({ evaluations }) => evaluations.map(({ suite }) => suite)))];
  return (
    <section>
      <h2>Evaluations by run</h2>
      <ScrollTable label="evaluations" titles={["run", ...suites]}>
        {runs.map((view) => (
          <tr key={view.run}>
            <td>
              <a href={`/runs/${view.run}`}>{view.run}</a>
            </td>
            {suites.map((suite) => (
              <td key={suite}>{firstAndNewest(view, suite)}</td>
            ))}
          </tr>
        ))}
      </ScrollTable>
      <p class="faint">First and newest evaluation, the latter with its 95% interval over questions.</p>
    </section>
  );
}

function firstAndNewest({ evaluations }: RunView, suite: string): string {
  const own = evaluations.filter((one) => one.suite === suite && one.n > 0).toSorted((a, b) => a.team - b.team);
  const [first, last] = [own[0], own.at(-1)];
  if (!first || !last) return "–";
  const share = percent(last.correct / last.n);
  const range = `[${(100 * last.interval.low).toFixed(1)}, ${(100 * last.interval.high).toFixed(1)}]`;
  return first === last ? `${share} ${range}` : `${percent(first.correct / first.n)} → ${share} ${range}`;
}

function Settings({ runs }: { readonly runs: readonly RunView[] }) {
  const rows = differingSettings(runs.map(({ config }) => config));
  return (
    <section>
      <h2>Settings that differ</h2>
      {rows.length === 0 && <p class="faint">None.</p>}
      <ScrollTable
        label="settings that differ"
        className={rows.length === 0 ? "none" : ""}
        titles={["setting", ...runs.map(({ run }) => run)]}
      >
        {rows.map(({ path, values }) => (
          <tr key={path}>
            <td>{path}</td>
            {values.map((value, i) => (
              <td key={runs[i]?.run}>{value}</td>
            ))}
          </tr>
        ))}
      </ScrollTable>
    </section>
  );
}
