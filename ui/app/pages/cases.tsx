/** @file The recipe's case studies: held-out questions before and after training, side by side, improved ones first. */
import { useRoute } from "preact-iso";
import type { CasesView } from "../../views.ts";
import { useView } from "../load.ts";
import { RunHeader } from "../parts/header.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { TreeNode } from "../parts/tree.tsx";

export function CasesPage() {
  const { run = "" } = useRoute().params;
  const loaded = useView<CasesView>(`/api/runs/${run}/cases`);
  const crumbs = [{ text: "evaluations", href: `/runs/${run}/evaluations` }, { text: "case studies" }];
  return (
    <>
      <RunHeader run={run} crumbs={crumbs} />
      {noticeOf(loaded) ?? (
        <main>
          <h1>Case studies</h1>
          <p class="faint">Held-out questions before and after training, improved ones first.</p>
          {loaded.view?.trees.map((tree) => (
            <TreeNode key={tree.title} tree={tree} />
          ))}
        </main>
      )}
    </>
  );
}
