/** @file A run: its facts, warnings and curves, the timeline of its newest step, its workers, and links to its steps. */

import { useCallback, useMemo } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import type { AgentView, RunView, WorkerView } from "../../views.ts";
import { useLiveRun } from "../load.ts";
import { Chart } from "../parts/chart.tsx";
import { curvesOf } from "../parts/curves.ts";
import { amount, dollars, duration, percent, shortModel, size } from "../parts/format.ts";
import { RunHeader } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { ScrollTable } from "../parts/scroll-table.tsx";
import { Timeline } from "../parts/timeline.tsx";

export function RunPage() {
  const { run = "" } = useRoute().params;
  const { route } = useLocation();
  const { pulse, ...loaded } = useLiveRun(run);
  const { view } = loaded;
  const curves = useMemo(() => (view ? curvesOf(view) : []), [view]);
  const pick = useCallback((x: number) => route(`/runs/${run}/steps/${Math.max(0, x - 1)}`), [run, route]);
  const notice = noticeOf(loaded);
  if (notice || !view) return notice ?? null;
  const last = view.perStep.at(-1)?.step;
  const openStep = pulse?.state === "running" ? pulse.openStep : null;
  return (
    <>
      <RunHeader run={run} tab="" />
      <main>
        <h1>{run}</h1>
        <Facts view={view} />
        <p class="bar">
          {last !== undefined && <a href={`/runs/${run}/steps/${last}`}>newest step</a>}
          {last !== undefined && (
            <a href={`/runs/${run}/steps/${last}?sort=worst`}>worst rollouts of the newest step</a>
          )}
          {openStep !== null && <a href={`/runs/${run}/steps/${openStep}`}>open step</a>}
        </p>
        {view.warnings.map((warning) => (
          <p key={warning} class="warning">
            {warning}
          </p>
        ))}
        {view.step === 0 && <p class="faint">No step is closed yet.</p>}
        <div class="charts">
          {curves.map((curve) => (
            <Chart key={curve.title} {...curve} {...(curve.xName === undefined && { onPick: pick })} />
          ))}
        </div>
        {last !== undefined && <Timeline run={run} step={last} />}
        {pulse && pulse.workers.length > 0 && <Workers workers={pulse.workers} />}
      </main>
    </>
  );
}

function Facts({ view }: { readonly view: RunView }) {
  const { recipe, arm, seed, step, steps, heldOut, agents, seconds, usd, writes } = view;
  return (
    <dl class="facts">
      <Fact name="recipe" value={`${recipe}, ${arm}, seed ${seed}`} />
      <Fact name="closed steps" value={`${step} of ${steps}`} />
      <Fact name="held-out" value={`${percent(heldOut.before)} → ${percent(heldOut.after)}`} />
      {seconds !== null && <Fact name="time" value={duration(seconds)} />}
      {usd !== null && <Fact name="cost" value={dollars(usd)} />}
      {writes !== null && <Fact name="writes to the table" value={writesOf(view, writes)} />}
      {agents.map((agent) => (
        <Fact key={agent.name} name={agent.name} value={modelOf(agent)} full={agent.model} />
      ))}
    </dl>
  );
}

/** The writes of all processes, and the bytes per rollout, as in report.json. */
function writesOf({ perStep }: RunView, { requests, bytes }: NonNullable<RunView["writes"]>): string {
  const rollouts = perStep.reduce((sum, step) => sum + step.rollouts + step.excluded, 0);
  const each = rollouts === 0 ? "" : `, ${amount(Math.round(bytes / rollouts))} bytes per rollout`;
  return `${amount(requests)} requests, ${size(bytes)}${each}`;
}

/** The agent's model, or the owner of its policy; with its share of the policy's loss if agents share the policy. */
function modelOf({ name, model, shared }: AgentView): string {
  if (!shared) return shortModel(model);
  const whose = shared.owner === name ? shortModel(model) : `policy of ${shared.owner}`;
  return `${whose}, ${percent(shared.share)} of its loss`;
}

interface FactProps {
  readonly name: string;
  readonly value: string;
  /** The unabridged value, shown on hover. */
  readonly full?: string;
}

const Fact = ({ name, value, full }: FactProps) => (
  <div>
    <dt>{name}</dt>
    <dd title={full}>{value}</dd>
  </div>
);

function Workers({ workers }: { readonly workers: readonly WorkerView[] }) {
  return (
    <section>
      <h2>Workers</h2>
      <ScrollTable label="workers" titles={["worker", "agent", "roles", "state", "last heartbeat"]}>
        {workers.map(({ worker, agent, roles, state, silentSeconds }) => (
          <tr key={worker}>
            <td>{worker}</td>
            <td>{agent}</td>
            <td>{roles.join(", ")}</td>
            <td>{state}</td>
            <td>{silentSeconds === null ? "–" : `${duration(silentSeconds)} ago`}</td>
          </tr>
        ))}
      </ScrollTable>
    </section>
  );
}
