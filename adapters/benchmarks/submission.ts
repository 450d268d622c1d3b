/**
 * @file Leaderboard submissions: one JSON Lines file per run, or one CSV file for all runs. A question whose rollout was lost to an
 * infrastructure failure is omitted, since a leaderboard would count it as wrong. A JSON Lines file omits it if its own run lost it; the CSV
 * omits it if any run lost it, since a cell cannot tell a lost response from an empty one.
 * In `result.json`, `lost` lists these questions and those that only the judge failed on (whose answers are in the submission);
 * `unasked` lists those that the team cannot answer.
 *
 *     gaia          JSON Lines of task_id, model_answer, reasoning_trace   (huggingface.co/spaces/gaia-benchmark/leaderboard)
 *     webwalkerqa   JSON Lines of question, pred                           (the input of WebWalker's evaluate.py)
 *     xbench        CSV of id, response-1 …, canary; columns as in xbench's own result files, responses encrypted; its leaderboard accepts no uploads
 *     reasoning-gym JSON Lines of source_dataset, source_index, answer       (named as in its entries; there is no leaderboard)
 *     otherwise     JSON Lines of id, answer; the ids of a file of questions get the prefix `jsonl:`
 */

import type { Conversation } from "../../core/contracts/conversation.ts";
import { encrypt } from "../../core/contracts/encryption.ts";
import type { Benchmark } from "../../core/contracts/evaluation-suite.ts";
import type { Question, SuiteQuestions } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";

/** [run][question]; undefined where a question has no conversation. */
export type Conversations_RQ = readonly (readonly (Conversation | undefined)[])[];

/** File contents by file name. `questions` are in the loader's order. Throws `record-damaged` if those of xbench have no canary. */
export function submissionFiles(
  benchmark: Benchmark | undefined,
  { questions, canary }: SuiteQuestions,
  conversations_RQ: Conversations_RQ,
): ReadonlyMap<string, string> {
  if (benchmark === "xbench") {
    if (canary === undefined) {
      throw new MgrpoError(
        "record-damaged",
        "the questions of xbench have no canary, so its submission cannot be encrypted: evaluate again, into another folder",
      );
    }
    return new Map([["submission.csv", encryptedTable(questions, canary, conversations_RQ)]]);
  }
  const entry = ENTRIES[benchmark ?? "jsonl"];
  return new Map(
    conversations_RQ.map((conversations_Q, run) => {
      const lines = questions.flatMap((question, i) => {
        const conversation = conversations_Q[i];
        return conversation ? `${JSON.stringify(entry(question, conversation))}\n` : [];
      });
      return [`submission-run${run + 1}.jsonl`, lines.join("")];
    }),
  );
}

const ENTRIES: Record<Exclude<Benchmark, "xbench">, (question: Question, conversation: Conversation) => object> = {
  gaia: ({ facts }, conversation) => ({
    task_id: fact(facts, "task"),
    model_answer: conversation.answer ?? "",
    reasoning_trace: traceOf(conversation),
  }),
  webwalkerqa: ({ facts }, { answer }) => ({ question: fact(facts, "question"), pred: answer ?? "" }),
  "reasoning-gym": ({ kind, facts }, { answer }) => ({
    source_dataset: kind,
    source_index: (facts as { index: number }).index,
    answer: answer ?? "",
  }),
  jsonl: ({ id }, { answer }) => ({ id, answer: answer ?? "" }),
};

function fact(facts: Question["facts"], name: string): string {
  const value = facts !== null && typeof facts === "object" && !Array.isArray(facts) ? facts[name] : undefined;
  return typeof value === "string" ? value : "";
}

function traceOf({ turns }: Conversation): string {
  return turns
    .flatMap(({ text, responses }) => [text, ...responses.map((response) => `[${response.name}] ${response.text}`)])
    .join("\n");
}

function encryptedTable(questions: readonly Question[], canary: string, conversations_RQ: Conversations_RQ): string {
  const header = ["id", ...conversations_RQ.map((_, run) => `response-${run + 1}`), "canary"];
  const rows = questions.flatMap(({ facts }, i) => {
    const conversations_R = conversations_RQ.flatMap((conversations_Q) => conversations_Q[i] ?? []);
    if (conversations_R.length < conversations_RQ.length) return [];
    return [[fact(facts, "id"), ...conversations_R.map(({ answer }) => encrypt(answer ?? "", canary)), canary]];
  });
  return [header, ...rows]
    .map((cells) => `${cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",")}\n`)
    .join("");
}
