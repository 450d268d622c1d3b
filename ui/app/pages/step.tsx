/** @file A step: its summary and timeline, its groups, why a group teaches an agent nothing, and a search through its rollouts. */
import { useLocation, useRoute } from "preact-iso";
import type { GroupRow, RolloutCell, SearchView, StepView } from "../../views.ts";
import { useKeys, usePulse, useView } from "../load.ts";
import { amount, byReward, duration, missingSignals, percent, signed } from "../parts/format.ts";
import { RunHeader } from "../parts/header.tsx";
import { Link } from "../parts/link.tsx";
import { QuestionNote } from "../parts/note.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Pagination } from "../parts/pagination.tsx";
import { SearchBox } from "../parts/search-box.tsx";
import { pageAt, searchedGroups } from "../parts/search-pages.ts";
import { Timeline } from "../parts/timeline.tsx";
import { stepRevisionOf } from "../run-loader.ts";
import { useSource } from "../source.ts";

const FILTERS = [
  ["any", "all rollouts"],
  ["wrong", "well-formed but not correct"],
  ["malformed", "malformed"],
  ["cut", "cut off at a limit"],
  ["tool-failed", "a tool call failed"],
  ["lost", "lost"],
  ["correct", "correct"],
] as const;

/** Changes the address's query, which says what the page shows. */
type ChangeQuery = (change: Readonly<Record<string, string>>) => void;

export function StepPage() {
  const { params, query } = useRoute();
  const { route } = useLocation();
  const { about, href } = useSource();
  const { run = "", step: at = "0" } = params;
  const step = Number(at);
  const { sort = "group", page = "0", text = "", filter = "any" } = query;
  const path = `/runs/${run}/steps`;
  const revision = stepRevisionOf(usePulse(run).view, step);
  const loaded = useView<StepView>(`/api${path}/${step}?${new URLSearchParams({ sort, page })}`, true, revision);
  const { view } = loaded;
  const hasNext = view?.step === step && view.hasNext;
  const changeQuery: ChangeQuery = (change) => {
    // Another order or search begins on its first page.
    const next = Object.entries({ ...query, page: "", ...change }).filter(([, value]) => value !== "");
    route(`${path}/${step}?${new URLSearchParams(next)}`, true);
  };
  // An export has no other step.
  const go = (to: number) => href(`${path}/${to}`) !== undefined && route(`${path}/${to}`);
  useKeys({
    "[": () => step > 0 && go(step - 1),
    "]": () => hasNext && go(step + 1),
  });
  const notice = noticeOf(loaded);
  // An export has no search: a search reads the store.
  const isLive = about === undefined;
  const isSearch = text !== "" || filter !== "any";
  return (
    <>
      <RunHeader run={run} crumbs={[{ text: `step ${step}` }]} />
      {notice ?? (
        <main>
          <h1>Step {view?.step}</h1>
          <Neighbors path={path} step={step} hasNext={hasNext} />
          {view?.summary && <Summary summary={view.summary} />}
          <div class="bar">
            {isLive && <Search text={text} filter={filter} changeQuery={changeQuery} />}
            <Order sort={sort} changeQuery={changeQuery} />
          </div>
          {!isSearch && view?.state === "closed" && <Timeline folded run={run} step={view.step} />}
          {isSearch && <Hits path={`${path}/${step}`} query={new URLSearchParams({ text, filter })} />}
          {!isSearch && view && <Groups view={view} path={`${path}/${view.step}`} changeQuery={changeQuery} />}
        </main>
      )}
    </>
  );
}

interface NeighborsProps {
  readonly path: string;
  readonly step: number;
  readonly hasNext: boolean;
}

function Neighbors({ path, step, hasNext }: NeighborsProps) {
  return (
    <p class="bar">
      {step > 0 && (
        <Link hides to={`${path}/${step - 1}`}>
          ← step {step - 1}
        </Link>
      )}
      {hasNext && (
        <Link hides to={`${path}/${step + 1}`}>
          step {step + 1} →
        </Link>
      )}
    </p>
  );
}

interface SearchProps {
  readonly text: string;
  readonly filter: string;
  readonly changeQuery: ChangeQuery;
}

function Search({ text, filter, changeQuery }: SearchProps) {
  return (
    <>
      <SearchBox
        placeholder="text in any conversation"
        label="search the rollouts' text"
        text={text}
        onSearch={(wanted) => changeQuery({ text: wanted })}
      />
      <select
        aria-label="which rollouts"
        value={filter}
        onChange={({ currentTarget }) => changeQuery({ filter: currentTarget.value })}
      >
        {FILTERS.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </>
  );
}

function Order({ sort, changeQuery }: { readonly sort: string; readonly changeQuery: ChangeQuery }) {
  return (
    <select
      aria-label="order of the groups"
      value={sort}
      onChange={({ currentTarget }) => changeQuery({ sort: currentTarget.value })}
    >
      <option value="group">by number</option>
      <option value="worst">worst first</option>
      <option value="best">best first</option>
    </select>
  );
}

function Summary({ summary }: { readonly summary: NonNullable<StepView["summary"]> }) {
  const { reward, correct, wellFormed, rollouts, excluded, zeroVariance, groups, seconds, sampledTokens } = summary;
  const rewards = Object.entries(reward).map(([agent, value]) => `${agent} ${amount(value)}`);
  const shareOfRollouts = (share: number) => percent(rollouts === 0 ? null : share);
  const facts = [
    `reward ${rewards.join(", ")}`,
    `${shareOfRollouts(correct)} correct`,
    `${shareOfRollouts(wellFormed)} well-formed`,
    `${rollouts} rollouts${excluded > 0 ? `, ${excluded} lost` : ""}`,
    `${zeroVariance} of ${groups} groups with zero variance`,
    `${amount(sampledTokens)} tokens sampled`,
    ...(seconds === null ? [] : [duration(seconds)]),
  ];
  return <p>{facts.join(" · ")}</p>;
}

interface GroupsProps {
  readonly view: StepView;
  readonly path: string;
  readonly changeQuery: ChangeQuery;
}

function Groups({ view, path, changeQuery }: GroupsProps) {
  return (
    <>
      <div class="groups">
        {view.groups.map((row) => (
          <Group key={row.group} row={row} path={path} />
        ))}
      </div>
      <Pagination page={view.page} pages={view.pages} onPageChange={(to) => changeQuery({ page: String(to) })} />
    </>
  );
}

function Group({ row, path }: { readonly row: GroupRow; readonly path: string }) {
  const { group, question, rollouts, mean, std } = row;
  const withoutSignal = missingSignals(row);
  const order = rollouts.toSorted(byReward);
  return (
    <section class="group">
      <h2>
        <Link to={`${path}/${group}`}>{question.prompt}</Link>
      </h2>
      <p class="faint">
        group {group} · {question.kind}, level {question.level} · reference: {question.answer}
        {mean !== null && std !== null && ` · mean ${mean.toFixed(3)}, std ${std.toFixed(3)}`}
      </p>
      <QuestionNote note={question.note} />
      <ol class="cells" aria-label="rollouts, worst first">
        {order.map((cell) => (
          <li key={cell.rollout}>
            <Link class={`cell ${cell.outcome}`} to={`${path}/${group}/${cell.rollout}`} title={describe(cell)}>
              {cell.reward === null ? cell.outcome : cell.reward.toFixed(2)}
            </Link>
          </li>
        ))}
      </ol>
      {withoutSignal.length > 0 && <p class="faint">no learning signal for {withoutSignal.join("; ")}</p>}
    </section>
  );
}

function describe({ rollout, outcome, advantage, tokens, calls, masked, reason }: RolloutCell): string {
  const made = Object.entries(calls).map(([agent, n]) => `${n} × ${agent}`);
  return [
    `rollout ${rollout}: ${outcome}`,
    ...(advantage === null ? [] : [`advantage ${signed(advantage)}`]),
    `${tokens} tokens`,
    ...made,
    ...(masked ? ["masked"] : []),
    ...(reason === "" ? [] : [reason]),
  ].join(", ");
}

/** One page of hits, and the pages after it. */
function Hits({ path, query }: { readonly path: string; readonly query: URLSearchParams }) {
  const loaded = useView<SearchView>(`/api${path}/search?${query}`);
  if (loaded.failure) return <p class="bad">{loaded.failure.message}</p>;
  if (!loaded.view) return <p class="faint">Searching …</p>;
  const { hits, next } = loaded.view;
  return (
    <>
      <p class="faint">
        {searchedGroups(query, next)}
        {hits.length} {hits.length === 1 ? "rollout" : "rollouts"}
      </p>
      <ul class="hits">
        {hits.map(({ group, rollout, outcome, reward, agent, excerpt, note }) => (
          <li key={`${group}/${rollout}`}>
            <a href={`${path}/${group}/${rollout}`}>
              {group}/{rollout}
            </a>{" "}
            <span class={`cell ${outcome}`}>{outcome}</span> {amount(reward)} <span class="faint">{agent}:</span>{" "}
            <bdi>{excerpt}</bdi>
            <QuestionNote note={note} />
          </li>
        ))}
      </ul>
      {next !== null && <Hits path={path} query={pageAt(query, next)} />}
    </>
  );
}
