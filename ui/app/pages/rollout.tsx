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
  const loaded = useView<RolloutView>(`/api${path}/${rollout}`);
  const { view } = loaded;
  const [at, count] = [Number(rollout), view?.row.rollouts.length ?? 0];
  const go = (to: number) => to >= 0 && to < count && route(`${path}/${to}`);
  useKeys({ j: () => go(at + 1), k: () => go(at - 1) });
  const crumbs = [
    { text: `step ${step}`, href: stepPath },
    { text: `group ${group}`, href: path },
    { text: `rollout ${rollout}` },
  ];
  return (
    <>
      <RunHeader run={run} crumbs={crumbs} />
      {noticeOf(loaded) ?? (
        <main>
          {view && <Question row={view.row} />}
          <p class="bar">
            {at > 0 && (
              <a href={`${path}/${at - 1}`} title="k">
                ← rollout {at - 1}
              </a>
            )}
            {at + 1 < count && (
              <a href={`${path}/${at + 1}`} title="j">
                rollout {at + 1} →
              </a>
            )}
          </p>
          {view && <OtherSteps view={view} run={run} rollout={rollout} />}
          {view && (
            <TreeNode
              tree={{ ...view.tree, body: undefined, note: undefined }}
              tokens={(trajectory) => `/api${path}/${rollout}/tokens?trajectory=${encodeURIComponent(trajectory)}`}
            />
          )}
        </main>
      )}
    </>
  );
}

interface OtherStepsProps {
  readonly view: RolloutView;
  readonly run: string;
  readonly rollout: string;
}

/** The same question, and the attempt with the same number, in other steps. */
function OtherSteps({ view, run, rollout }: OtherStepsProps) {
  if (view.sameQuestion.length === 0) return null;
  return (
    <p class="bar faint">
      the same question in
      {view.sameQuestion.map(({ step, group }) => (
        <a key={step} href={`/runs/${run}/steps/${step}/${group}/${rollout}`}>
          step {step}
        </a>
      ))}
    </p>
  );
}
