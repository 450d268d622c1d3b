/** @file One rollout: the whole team's tree, with tokens, and the way to the next attempt and to the same question in other steps. */
import { useLocation, useRoute } from "preact-iso";
import type { RolloutView } from "../../views.ts";
import { useKeys, useView } from "../load.ts";
import { RunHeader } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { TreeNode } from "../parts/tree.tsx";
import { Question } from "./group.tsx";

export function RolloutPage() {
  const { run = "", step = "", group = "", rollout = "" } = useRoute().params;
  const { route } = useLocation();
  const stepPath = `/runs/${run}/steps/${step}`;
  const path = `${stepPath}/${group}`;
  const loaded = useView<RolloutView>(`/api${path}/${rollout}`, true);
  const { view } = loaded;
  const go = (to: number) => to >= 0 && to < (view?.row.rollouts.length ?? 0) && route(`${path}/${to}`);
  useKeys({ j: () => go(Number(rollout) + 1), k: () => go(Number(rollout) - 1) });
  const crumbs = [
    { text: `step ${step}`, href: stepPath },
    { text: `group ${group}`, href: path },
    { text: `rollout ${rollout}` },
  ];
  return (
    <>
      <RunHeader run={run} crumbs={crumbs} />
      {noticeOf(loaded) ?? <main>{view && <Rollout run={run} view={view} />}</main>}
    </>
  );
}

interface RolloutProps {
  readonly run: string;
  readonly view: RolloutView;
}

function Rollout({ run, view }: RolloutProps) {
  const { step, row, rollout, tree } = view;
  const path = `/runs/${run}/steps/${step}/${row.group}`;
  return (
    <>
      <Question row={row} />
      <p class="bar">
        {rollout > 0 && (
          <a href={`${path}/${rollout - 1}`} title="k">
            ← rollout {rollout - 1}
          </a>
        )}
        {rollout + 1 < row.rollouts.length && (
          <a href={`${path}/${rollout + 1}`} title="j">
            rollout {rollout + 1} →
          </a>
        )}
      </p>
      <OtherSteps run={run} view={view} />
      <TreeNode
        key={`${path}/${rollout}`}
        tree={{ ...tree, body: undefined, note: undefined }}
        tokens={(trajectory) => `/api${path}/${rollout}/tokens?trajectory=${encodeURIComponent(trajectory)}`}
      />
    </>
  );
}

/** The same question, and the attempt with the same number, in other steps. */
function OtherSteps({ run, view }: RolloutProps) {
  if (view.sameQuestion.length === 0) return null;
  return (
    <p class="bar faint">
      the same question in
      {view.sameQuestion.map(({ step, group }) => (
        <a key={step} href={`/runs/${run}/steps/${step}/${group}/${view.rollout}`}>
          step {step}
        </a>
      ))}
    </p>
  );
}
