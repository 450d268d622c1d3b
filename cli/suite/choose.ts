/**
 * @file Resolves `mgrpo eval --suite <name>`: a suite that the run or recipe declares, a benchmark, a file of questions, or, given the
 * recipe's name, its held-out questions.
 */
import { basename } from "node:path";
import type * as z from "zod";
import {
  type Attachments,
  BENCHMARK_RUNS,
  Benchmark,
  type EvaluationSuite,
} from "../../core/contracts/evaluation-suite.ts";
import { MgrpoError } from "../../core/errors.ts";
import { didYouMean } from "../terminal/nearest.ts";

export interface SuiteOptions {
  readonly data?: string;
  readonly criteria?: string;
  readonly runs?: number;
  readonly attachments?: Attachments;
}

export function chooseSuite(
  name: string,
  recipe: string,
  declared: readonly EvaluationSuite[],
  { data, ...chosen }: SuiteOptions,
): z.input<typeof EvaluationSuite> {
  const own = declared.find((suite) => suite.name === name);
  if (own && data === undefined) return { ...own, ...chosen };
  if (own?.benchmark !== undefined && data !== undefined) return { ...own, ...chosen, data };
  const suite = { runs: BENCHMARK_RUNS, ...chosen };
  if (name.endsWith(".jsonl")) {
    if (data !== undefined) throw refusal(`--suite ${name} is the data itself: leave out --data`);
    return { ...suite, name: slug(name), benchmark: "jsonl", data: name };
  }
  const benchmark = Benchmark.exclude(["jsonl"]).safeParse(name);
  if (benchmark.success) {
    if (data === undefined) throw refusal(`--suite ${name} needs --data <path>: docs/benchmarks.md says how to get it`);
    return { ...suite, name, benchmark: benchmark.data, data };
  }
  if (name !== recipe && !own) throw unknownSuite(name, recipe, declared);
  if (data !== undefined) throw refusal(`--suite ${name} has its own questions: leave out --data`);
  return { ...suite, name: "held-out" };
}

const refusal = (message: string) => new MgrpoError("config-invalid", message);

function unknownSuite(name: string, recipe: string, declared: readonly EvaluationSuite[]): MgrpoError {
  const benchmarks = Benchmark.options.filter((one) => one !== "jsonl");
  const known = [...new Set([...benchmarks, recipe, ...declared.map((one) => one.name)])];
  return refusal(
    `--suite ${name}: give one of ${known.join(", ")}, or a file of questions, <file>.jsonl${didYouMean(name, known)}`,
  );
}

/** Turns a file name into a suite name, which is part of job ids and has at most 63 characters. */
function slug(file: string): string {
  const name = basename(file, ".jsonl")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+/, "")
    .slice(0, 63)
    .replace(/-+$/, "");
  return name === "" ? "questions" : name;
}
