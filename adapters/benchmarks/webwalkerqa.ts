/**
 * @file WebWalkerQA (Wu et al. 2025, arXiv 2501.07572; huggingface.co/datasets/callanwu/WebWalkerQA): JSON or JSON Lines. Each
 * question starts from a website, whose address is appended to the prompt.
 */
import * as z from "zod";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { jsonRows, parseRows, requireRows } from "./rows.ts";

const LEVELS = ["easy", "medium", "hard"] as const;

const WebWalkerQaTask = z.object({
  question: z.string().min(1),
  answer: z.string().min(1),
  root_url: z.string().min(1),
  info: z.object({
    difficulty_level: z.enum(LEVELS),
    lang: z.enum(["en", "zh"]),
    type: z.enum(["single_source", "multi_source"]),
    domain: z.string(),
  }),
});

export function loadWebWalkerQa(file: string): SuiteQuestions {
  const rows = jsonRows(file);
  const tasks = parseRows(rows, WebWalkerQaTask, "WebWalkerQA");
  requireRows(file, rows);
  const questions = tasks.map(({ question, answer, root_url, info }, i) => ({
    id: `webwalkerqa:${i + 1}`,
    kind: info.type,
    level: LEVELS.indexOf(info.difficulty_level) + 1,
    prompt: `${question}\n\nThe website to start from: ${root_url}`,
    answer,
    facts: { question, difficulty: info.difficulty_level, language: info.lang, domain: info.domain },
  }));
  return { questions };
}
