/** @file What an evaluation asks: the held-out questions, or a benchmark's. */
import * as z from "zod";
import { isSafeKey } from "./names.ts";
import { MAX_TEMPERATURE } from "./rollout.ts";

/** Published benchmarks, read from the user's files (docs/benchmarks.md), and `jsonl` for the user's own questions. */
export const Benchmark = z.enum(["gaia", "xbench", "webwalkerqa", "reasoning-gym", "jsonl"]);
export type Benchmark = z.infer<typeof Benchmark>;

/** Benchmarks whose free-form answers need a judge model. */
const JUDGED_BENCHMARKS: readonly Benchmark[] = ["xbench", "webwalkerqa"];

/** Whether a judge model scores the answers to the suite. */
export const needsJudge = ({ benchmark }: { readonly benchmark?: Benchmark }): boolean =>
  benchmark !== undefined && JUDGED_BENCHMARKS.includes(benchmark);

/** Whether the benchmark's own rules score the answers. Otherwise the recipe's rewards do, or the rewards that an app returns. */
export const hasOwnScorer = ({ benchmark }: { readonly benchmark?: Benchmark }): boolean =>
  benchmark !== undefined && benchmark !== "jsonl";

/** Default number of runs of a benchmark. The paper also reports the mean of three. */
export const BENCHMARK_RUNS = 3;

/**
 * Which questions of GAIA are asked. `readable`: those without a file, and those whose file the tool `read_attachment` can read as text.
 * `none`: those without a file. `all`: every question; if `read_attachment` cannot read the file, the prompt names its path, for a team's own
 * tools.
 */
export const Attachments = z.enum(["readable", "none", "all"]);
export type Attachments = z.infer<typeof Attachments>;

/**
 * One entry of `evaluation.suites`. Parsed, `runs` is a number, by default 3 for a benchmark at a temperature above 0 and otherwise 1. Refuses
 * more than one greedy run, a benchmark without its data, data without a benchmark, and settings that apply only to other benchmarks.
 */
export const EvaluationSuite = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-z][a-z0-9-]{0,62}$/, "1 to 63 lower-case letters, digits or '-', the first a letter")
      .refine(isSafeKey, "a suite cannot have this name: every JavaScript object has a 'constructor'")
      .describe("The suite's name in reports."),
    temperature: z.number().min(0).max(MAX_TEMPERATURE).default(1).describe("Sampling temperature. 0: greedy."),
    closedBook: z
      .boolean()
      .default(false)
      .describe("Tools return nothing: measures what the models know without them."),
    benchmark: Benchmark.exactOptional().describe(
      "Benchmark to run: gaia, xbench, webwalkerqa, reasoning-gym, or jsonl for your own questions. Default: the held-out questions.",
    ),
    data: z
      .string()
      .min(1)
      .exactOptional()
      .describe("Path of the benchmark's data on the machine that starts the run. Required with benchmark."),
    attachments: Attachments.exactOptional().describe(
      "Which questions of gaia are asked: those without a file or with a readable one (readable, default), those without one (none), or all.",
    ),
    criteria: z
      .string()
      .min(1)
      .exactOptional()
      .describe("Path of a prompt for the judge, such as the benchmark's official one. Default: the built-in prompt."),
    skip: z
      .int()
      .nonnegative()
      .exactOptional()
      .describe(
        "Number of questions at the start of the set that are not asked, such as those of a development split.",
      ),
    questions: z.int().nonnegative().default(0).describe("Number of questions to ask, after those skipped. 0: all."),
    runs: z
      .int()
      .positive()
      .max(1000)
      .exactOptional()
      .describe(
        "Number of times each question is asked. Default: 3 for a benchmark at a temperature above 0, otherwise 1.",
      ),
    when: z
      .enum(["every", "ends"])
      .default("every")
      .describe(
        "Which teams it evaluates: those of every evaluation (every), or only the first and the last, once training has ended (ends).",
      ),
  })
  .transform(({ runs, ...suite }) => {
    const isAveraged = suite.benchmark !== undefined && suite.temperature > 0;
    return { ...suite, runs: runs ?? (isAveraged ? BENCHMARK_RUNS : 1) };
  })
  .refine(({ temperature, runs }) => temperature > 0 || runs === 1, {
    path: ["runs"],
    error: "greedy runs would all be the same: set runs to 1, or a temperature above 0",
  })
  .refine(({ benchmark, data }) => (benchmark === undefined) === (data === undefined), {
    path: ["data"],
    error: "a benchmark and the path of its data go together: set both, or neither for the held-out questions",
  })
  .refine(({ benchmark, attachments }) => attachments === undefined || benchmark === "gaia", {
    path: ["attachments"],
    error: "applies only to gaia, where some questions have a file: remove it",
  })
  .refine((suite) => suite.criteria === undefined || needsJudge(suite), {
    path: ["criteria"],
    error: `applies only to a benchmark that a model judges (${JUDGED_BENCHMARKS.join(", ")}): remove it`,
  });
export type EvaluationSuite = z.infer<typeof EvaluationSuite>;

/** The questions of its set that a suite asks. */
export function questionsAsked<Q>(
  { skip = 0, questions }: Pick<EvaluationSuite, "skip" | "questions">,
  set: readonly Q[],
): Q[] {
  return set.slice(skip, questions === 0 ? undefined : skip + questions);
}
