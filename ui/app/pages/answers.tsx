/** @file The answers to one question in one evaluation. */
import { useRoute } from "preact-iso";
import type { AnswersView } from "../../views.ts";
import { useView } from "../load.ts";
import { RunHeader } from "../parts/header.tsx";
import { QuestionNote } from "../parts/note.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { TreeNode } from "../parts/tree.tsx";

export function AnswersPage() {
  const { params, query } = useRoute();
  const { run = "", job = "" } = params;
  const question = query["question"] ?? "";
  const loaded = useView<AnswersView>(`/api/runs/${run}/evaluations/${job}?question=${encodeURIComponent(question)}`);
  const { view } = loaded;
  const crumbs = [{ text: "evaluations", href: `/runs/${run}/evaluations` }, { text: question }];
  return (
    <>
      <RunHeader run={run} crumbs={crumbs} />
      {noticeOf(loaded) ?? (
        <main>
          <h1>{view?.question.prompt}</h1>
          <p class="faint">
            {view?.question.kind}, level {view?.question.level} · reference: {view?.question.answer}
          </p>
          {view && <QuestionNote note={view.question.note} />}
          {view?.trees.map((tree) => (
            <TreeNode key={tree.title} tree={tree} />
          ))}
        </main>
      )}
    </>
  );
}
