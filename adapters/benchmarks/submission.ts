/**
 * @file What a leaderboard takes, one file per run, or all runs in one where it says so. What was not answered because infrastructure
 * failed is left out, since a leaderboard would call it wrong.
 *
 *     gaia          JSON Lines of task_id, model_answer, reasoning_trace   (huggingface.co/spaces/gaia-benchmark/leaderboard)
 *     webwalkerqa   JSON Lines of question, pred                           (what WebWalker's evaluate.py reads)
 *     xbench        CSV of id, response-1 …, as its results are named, responses encrypted with the canary; the board itself takes no file
 *     otherwise     JSON Lines of id, answer
 */

import type { Conversation } from "../../core/contracts/conversation.ts";
import { encrypt } from "../../core/contracts/encryption.ts";
import type { Benchmark } from "../../core/contracts/evaluation-suite.ts";
import type { Question, SuiteQuestions } from "../../core/contracts/question.ts";

/** [run][question]: what was said; undefined where nothing was. */
export type Conversations_RQ = readonly (readonly (Conversation | undefined)[])[];

/** Contents by file name. `questions` as their loader gives them. */
export function submissionFiles(
  benchmark: Benchmark | undefined,
  { questions, canary }: SuiteQuestions,
  said_RQ: Conversations_RQ,
): ReadonlyMap<string, string> {
  if (benchmark === "xbench") return new Map([["submission.csv", encryptedTable(questions, canary ?? "", said_RQ)]]);
  const entry = ENTRIES[benchmark ?? "jsonl"];
  return new Map(
    said_RQ.map((said_Q, run) => {
      const lines = questions.flatMap((question, i) => {
        const said = said_Q[i];
        return said ? `${JSON.stringify(entry(question, said))}\n` : [];
      });
      return [`submission-run${run + 1}.jsonl`, lines.join("")];
    }),
  );
}

const ENTRIES: Record<Exclude<Benchmark, "xbench">, (question: Question, said: Conversation) => object> = {
  gaia: ({ facts }, said) => ({
    task_id: fact(facts, "task"),
    model_answer: said.answer ?? "",
    reasoning_trace: traceOf(said),
  }),
  webwalkerqa: ({ facts }, { answer }) => ({ question: fact(facts, "question"), pred: answer ?? "" }),
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

function encryptedTable(questions: readonly Question[], canary: string, said_RQ: Conversations_RQ): string {
  const header = ["id", ...said_RQ.map((_, run) => `response-${run + 1}`), "canary"];
  const rows = questions.map(({ facts }, i) => {
    const responses = said_RQ.map((said_Q) => encrypt(said_Q[i]?.answer ?? "", canary));
    return [fact(facts, "id"), ...responses, canary];
  });
  return [header, ...rows]
    .map((cells) => `${cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",")}\n`)
    .join("");
}
