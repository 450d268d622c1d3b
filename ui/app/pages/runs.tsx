/** @file All runs: search, sort, and choose several to compare. */

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import type { DamagedRun, RunRow } from "../../views.ts";
import { useRuns } from "../load.ts";
import { amount, dollars, duration, percent, shortModel } from "../parts/format.ts";
import { Header } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Scroll } from "../parts/scroll.tsx";

type AnyRow = RunRow | DamagedRun;
type ColumnKey =
  | "run"
  | "recipe"
  | "seed"
  | "state"
  | "step"
  | "before"
  | "after"
  | "seconds"
  | "usd"
  | "heartbeatSeconds";

const COLUMNS: readonly (readonly [ColumnKey, string])[] = [
  ["run", "run"],
  ["recipe", "recipe"],
  ["seed", "seed"],
  ["state", "state"],
  ["step", "step"],
  ["before", "before"],
  ["after", "after"],
  ["seconds", "time"],
  ["usd", "cost"],
  ["heartbeatSeconds", "heartbeat"],
];
/** Columns that the list cannot be sorted by. */
const UNSORTED = ["waits for", "newest reward", "models"] as const;

export function RunsPage() {
  const { query, route } = useLocation();
  const loaded = useRuns();
  const [chosen, choose] = useState<readonly string[]>([]);
  const notice = noticeOf(loaded);
  if (notice || !loaded.view) return notice ?? null;
  const { text = "", sort = "run", down = "" } = query;
  const changeQuery = (change: Record<string, string>) =>
    route(`/?${new URLSearchParams({ ...query, ...change })}`, true);
  const { runs, failure } = loaded.view;
  const shown = runs
    .filter((row) => searchTextOf(row).includes(text.toLowerCase()))
    .sort((a, b) => (down === "1" ? -1 : 1) * compareBy(sort as ColumnKey, a, b));
  const toggle = (run: string) => choose(chosen.includes(run) ? chosen.filter((one) => one !== run) : [...chosen, run]);
  return (
    <>
      <Header crumbs={[]} />
      <main class="full">
        <h1>Runs</h1>
        {failure !== null && <p class="bad">Some runs may be missing or out of date: {failure}</p>}
        <div class="bar">
          <input
            type="search"
            placeholder="name, recipe, arm, seed 7, model"
            aria-label="search runs"
            value={text}
            onInput={({ currentTarget }) => changeQuery({ text: currentTarget.value })}
          />
          <button type="button" disabled={chosen.length < 2} onClick={() => route(`/compare?runs=${chosen.join(",")}`)}>
            compare {chosen.length > 1 ? chosen.length : ""}
          </button>
        </div>
        {runs.length === 0 && <p class="faint">There are no runs here yet: start one with `mgrpo train atlas`.</p>}
        <p class={runs.length === 0 ? "none" : "faint"}>Before and after: held-out accuracy.</p>
        <Scroll label="runs" className="dense">
          <table>
            <Titles sort={sort} down={down === "1"} changeQuery={changeQuery} />
            <tbody>
              {shown.map((row) => (
                <Row key={row.run} row={row} isChosen={chosen.includes(row.run)} toggle={() => toggle(row.run)} />
              ))}
            </tbody>
          </table>
        </Scroll>
      </main>
    </>
  );
}

interface TitlesProps {
  readonly sort: string;
  readonly down: boolean;
  readonly changeQuery: (change: Record<string, string>) => void;
}

function Titles({ sort, down, changeQuery }: TitlesProps) {
  return (
    <thead>
      <tr>
        <td />
        {COLUMNS.map(([column, title]) => (
          <th key={column} scope="col" aria-sort={sort !== column ? "none" : down ? "descending" : "ascending"}>
            <button
              type="button"
              class="plain"
              onClick={() => changeQuery({ sort: column, down: sort === column && !down ? "1" : "" })}
            >
              {title}
            </button>
          </th>
        ))}
        {UNSORTED.map((title) => (
          <th key={title} scope="col">
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

interface RowProps {
  readonly row: AnyRow;
  readonly isChosen: boolean;
  readonly toggle: () => void;
}

function Row({ row, isChosen, toggle }: RowProps) {
  if (row.state === "damaged") {
    return (
      <tr>
        <td />
        <td>{row.run}</td>
        <td class="bad" colSpan={COLUMNS.length + UNSORTED.length - 1}>
          {row.reason}
        </td>
      </tr>
    );
  }
  const rewards = Object.entries(row.reward).map(([agent, reward]) => `${agent} ${amount(reward)}`);
  const models = [...new Set(Object.values(row.models))];
  return (
    <tr>
      <td>
        <input type="checkbox" checked={isChosen} onChange={toggle} aria-label={`choose ${row.run}`} />
      </td>
      <td>
        <a href={`/runs/${row.run}`}>{row.run}</a>
      </td>
      <td>
        <span title={row.recipe}>{row.recipe.split("/").at(-1)}</span> <span class="faint">{row.arm}</span>
      </td>
      <td>{row.seed}</td>
      <td title={row.reason}>
        <span class={`state ${row.state}`}>{row.state}</span>
      </td>
      <td>
        {row.step}/{row.steps}
      </td>
      <td>{percent(row.heldOut.before)}</td>
      <td>{percent(row.heldOut.after)}</td>
      <td>{duration(row.seconds)}</td>
      <td>{dollars(row.usd)}</td>
      <td>{row.heartbeatSeconds === null ? "–" : `${duration(row.heartbeatSeconds)} ago`}</td>
      <td class={row.stall === null ? "" : "bad"} title={row.stall ?? undefined}>
        {row.stall === null ? (row.wait ?? "–") : `stalled: ${row.wait}`}
      </td>
      <td>{rewards.join(", ")}</td>
      <td class="faint" title={models.join(", ")}>
        {models.map(shortModel).join(", ")}
      </td>
    </tr>
  );
}

const searchTextOf = (row: AnyRow): string =>
  JSON.stringify(
    row.state === "damaged" ? row : [row.run, row.recipe, row.arm, `seed ${row.seed}`, row.state, row.models],
  ).toLowerCase();

function compareBy(column: ColumnKey, a: AnyRow, b: AnyRow): number {
  const [x, y] = [sortKeyOf(column, a), sortKeyOf(column, b)];
  if (typeof x === "number" && typeof y === "number") return x - y;
  return String(x).localeCompare(String(y), "en", { numeric: true });
}

function sortKeyOf(column: ColumnKey, row: AnyRow): string | number {
  if (row.state === "damaged") return column === "run" ? row.run : column === "state" ? row.state : -1;
  if (column === "before" || column === "after") return row.heldOut[column] ?? -1;
  return row[column] ?? -1;
}
