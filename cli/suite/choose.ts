/** @file The suite that `mgrpo eval --suite` names: a benchmark, a file of questions, or the recipe's held-out questions by its name. */
import { basename } from "node:path";
import type * as z from "zod";
import { BENCHMARK_RUNS, Benchmark, type EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { MgrpoError } from "../../core/errors.ts";

export interface SuiteOptions {
  readonly data?: string;
  readonly criteria?: string;
  readonly runs?: number;
}

export function chooseSuite(
  name: string,
  recipe: string,
  { data, criteria, runs = BENCHMARK_RUNS }: SuiteOptions,
): z.input<typeof EvaluationSuite> {
  const asked = { runs, ...(criteria !== undefined && { criteria }) };
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
  if (name !== recipe) {
    const known = [...Benchmark.options.filter((one) => one !== "jsonl"), recipe].join(", ");
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
