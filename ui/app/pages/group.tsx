/** @file A group: the rollouts of one question side by side, worst first. */
import { useRoute } from "preact-iso";
import type { GroupView } from "../../views.ts";
import { usePulse, useView } from "../load.ts";
import { byReward, missingSignals } from "../parts/format.ts";
import { RunHeader } from "../parts/header.tsx";
import { Link } from "../parts/link.tsx";
import { QuestionNote } from "../parts/note.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { Scroll } from "../parts/scroll.tsx";
import { TreeNode } from "../parts/tree.tsx";
import { stepRevisionOf } from "../run-loader.ts";

export function GroupPage() {
  const { run = "", step = "", group = "" } = useRoute().params;
  const path = `/runs/${run}/steps/${step}`;
  const revision = stepRevisionOf(usePulse(run).view, Number(step));
  const loaded = useView<GroupView>(`/api${path}/${group}`, false, revision);
  const { view } = loaded;
  return (
    <>
      <RunHeader run={run} crumbs={[{ text: `step ${step}`, href: path }, { text: `group ${group}` }]} />
      {noticeOf(loaded) ?? (
        <main class="full">
          {view && <QuestionPanel row={view.row} />}
          <Scroll className="columns" label="rollouts, worst first">
            {view?.row.rollouts.toSorted(byReward).map(({ rollout, outcome }) => {
              const tree = view.trees[rollout];
              return (
                <section key={rollout}>
                  <p>
                    <Link to={`${path}/${group}/${rollout}`}>open</Link>{" "}
                    <span class={`cell ${outcome}`}>{outcome}</span>
                  </p>
                  {tree && <TreeNode tree={{ ...tree, folded: false }} />}
                </section>
              );
            })}
          </Scroll>
        </main>
      )}
    </>
  );
}

export function QuestionPanel({ row }: { readonly row: GroupView["row"] }) {
  const { question } = row;
  const withoutSignal = missingSignals(row);
  return (
    <>
      <h1>{question.prompt}</h1>
      <p class="faint">
        {question.kind}, level {question.level} · reference: {question.answer}
      </p>
      <QuestionNote note={question.note} />
      {withoutSignal.length > 0 && <p class="warning">No learning signal for {withoutSignal.join("; ")}</p>}
    </>
  );
}
