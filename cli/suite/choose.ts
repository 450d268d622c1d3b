/**
 * @file The suite that `mgrpo eval --suite` names: one that the run or recipe declares, as it is declared there; a benchmark; a file of
 * questions; or, by the recipe's name, its held-out questions.
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
  const asked = { runs: BENCHMARK_RUNS, ...chosen };
  if (name.endsWith(".jsonl")) {
    if (data !== undefined)
      throw new MgrpoError("config-invalid", `--suite ${name} is the data itself: leave out --data`);
    return { ...asked, name: slug(name), benchmark: "jsonl", data: name };
  }
  const benchmark = Benchmark.exclude(["jsonl"]).safeParse(name);
  if (benchmark.success) {
    if (data === undefined) {
      throw new MgrpoError(
        "config-invalid",
        `--suite ${name} needs --data <path>: docs/benchmarks.md says how to get it`,
      );
    }
    return { ...asked, name, benchmark: benchmark.data, data };
  }
  if (name !== recipe && !own) {
    const names = [...Benchmark.options.filter((one) => one !== "jsonl"), recipe, ...declared.map((one) => one.name)];
    const known = [...new Set(names)].join(", ");
    throw new MgrpoError(
      "config-invalid",
      `--suite ${name}: give one of ${known}, or a file of questions, <file>.jsonl`,
    );
  }
  if (data !== undefined)
    throw new MgrpoError("config-invalid", `--suite ${name} brings its questions: leave out --data`);
  return { ...asked, name: "held-out" };
}

/** A suite's name is part of its job's. */
function slug(file: string): string {
  const name = basename(file, ".jsonl")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "");
  return name === "" ? "questions" : name;
}
