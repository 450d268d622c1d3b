/** @file The commands that measure: `eval`, and `judge check`. */
import { type Command, Option } from "commander";
import { Attachments } from "../core/contracts/evaluation-suite.ts";
import { arm, extendToolCalls, extendToolUsd, judge, seed, setting } from "./options.ts";
import { count, positive } from "./terminal/fail.ts";

export function addEvaluation(program: Command): void {
  program
    .command("eval")
    .description("evaluate a team, trained here or behind APIs, on its suites or on a benchmark")
    .argument(
      "[team]",
      "a run's name, a folder with one checkpoint per agent, a JSON config with recipe and agents, or openai:<base url>#<model>",
    )
    .option(
      "--recipe <recipe>",
      "recipe of a folder that is no run's (atlas by default), or of a model behind an API (deep-research)",
    )
    .addOption(arm())
    .addOption(seed())
    .addOption(setting())
    .addOption(
      new Option(
        "--watch <place>",
        "folder or s3://bucket/prefix: evaluate each checkpoint that somebody puts there",
      ).conflicts([
        "recipe",
        "arm",
        "seed",
        "set",
        "suite",
        "data",
        "criteria",
        "runs",
        "attachments",
        "judge",
        "extendToolCalls",
        "extendToolUsd",
      ]),
    )
    .option(
      "--suite <name>",
      "gaia, xbench, webwalkerqa, <file>.jsonl, a suite of the run or recipe, or the recipe's name for its held-out questions",
    )
    .option("--data <path>", "with --suite: the benchmark's data (docs/benchmarks.md)")
    .option("--criteria <file>", "with --suite: what the judge goes by, such as the benchmark's official prompt")
    .addOption(
      new Option("--runs <n>", "with --suite: times that every question is asked, 3 by default").argParser(
        count("--runs"),
      ),
    )
    .addOption(
      new Option("--attachments <which>", "with --suite gaia: which questions are asked (docs/benchmarks.md)").choices(
        Attachments.options,
      ),
    )
    .addOption(judge())
    .option(
      "--team <file>",
      "with --watch: JSON that says whose checkpoints they are, and names the other agents' models",
    )
    .addOption(new Option("--every <seconds>", "with --watch: time between two looks").argParser(positive("--every")))
    .option(
      "--results <folder>",
      "with --watch or --suite: where results are kept; what is there is not evaluated again",
    )
    .addOption(extendToolCalls())
    .addOption(extendToolUsd())
    .action(async (target, options) => (await import("./eval.ts")).evaluateOrWatch(target, options));

  program
    .command("judge")
    .description("the model that judges")
    .command("check")
    .description(
      "hold a judge against people: answers that they labelled (accuracy, Cohen's kappa), or work that they scored (mean absolute error, correlation); and what it sees otherwise",
    )
    .argument(
      "<labels.jsonl>",
      "one object per line: question, reference, answer, correct (true or false); or task, steps, report, score (0 to 1); id if you like",
    )
    .option("--recipe <recipe>", "whose judge it is", "atlas")
    .addOption(judge())
    .option("--criteria <file>", "text that says what is right, or good work, instead of the recipe's")
    .addOption(setting())
    .action(async (file, options) => (await import("./judge/check.ts")).checkJudge(file, options));
}
