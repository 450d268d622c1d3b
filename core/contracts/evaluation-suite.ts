/** @file What an evaluation asks: the held-out questions, or those of a benchmark. */
import * as z from "zod";

/** Questions of others, from files that the user has (docs/benchmarks.md); `jsonl` is a format for one's own. */
export const Benchmark = z.enum(["gaia", "xbench", "webwalkerqa", "jsonl"]);
export type Benchmark = z.infer<typeof Benchmark>;

/** Whose answers only a model can judge: their references are not the one way to say it. */
export const JUDGED: readonly Benchmark[] = ["xbench", "webwalkerqa"];

/** Of a benchmark: its score is the mean of so many independent runs, as the paper's is. */
export const BENCHMARK_RUNS = 3;

/**
 * Which questions of GAIA are asked: `readable`, those without a file and those whose file the team can read as text, by the tool
 * `read_attachment`; `none`, those without a file; `all`, for teams with tools of their own, by paths on this machine.
 */
export const Attachments = z.enum(["readable", "none", "all"]);
export type Attachments = z.infer<typeof Attachments>;

export const EvaluationSuite = z
  .strictObject({
    name: z.string().regex(/^[a-z][a-z0-9-]*$/),
    temperature: z.number().min(0).default(1),
    /** Every tool answers nothing: what the models know by heart. */
    closedBook: z.boolean().default(false),
    /** Whose questions are asked, instead of the held-out ones. */
    benchmark: Benchmark.exactOptional(),
    /** Where its data lies, on the machine that starts the run: they travel with the run from there. */
    data: z.string().min(1).exactOptional(),
    /** By default `readable`. */
    attachments: Attachments.exactOptional(),
    /** A file, there too, that says to the judge what is right, instead of our words: the benchmark's official prompt. */
    criteria: z.string().min(1).exactOptional(),
    /** Questions of the set, from its start; 0 is all of them. */
    questions: z.int().nonnegative().default(0),
    /**
     * Times that every question is asked, each with random streams of its own: a narrower interval, at that many times the price. By
     * default a benchmark's questions three times, others and greedy ones once.
     */
    runs: z.int().positive().exactOptional(),
    /** `every`: on each evaluated team; `ends`: only before and after training. */
    when: z.enum(["every", "ends"]).default("every"),
  })
  .transform(({ runs, ...suite }) => {
    const mean = suite.benchmark !== undefined && suite.temperature > 0;
    return { ...suite, runs: runs ?? (mean ? BENCHMARK_RUNS : 1) };
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
    error: "does nothing but for gaia, whose questions come with files: remove it",
  })
  .refine(({ benchmark, criteria }) => criteria === undefined || (benchmark && JUDGED.includes(benchmark)), {
    path: ["criteria"],
    error: `does nothing but for a benchmark that a model judges (${JUDGED.join(", ")}): remove it`,
  });
export type EvaluationSuite = z.infer<typeof EvaluationSuite>;
