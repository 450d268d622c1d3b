/** @file Commands that evaluate or use a team (`eval`, `mine`, `ask` and `serve`), and `judge check`. */
import { type Command, Option } from "commander";
import { Attachments } from "../../core/contracts/evaluation-suite.ts";
import { path, port, positive, positiveInteger, share } from "../terminal/fail.ts";
import { addBudgets, armOption, judgeOption, seedOption, settingOption, temperatureOption } from "./options.ts";

const TEAM = "a run's name, a folder with one checkpoint per agent, a JSON team file, or openai:<base url>#<model>";
const recipeOption = () =>
  new Option(
    "--recipe <recipe>",
    "recipe for a folder of checkpoints (default: atlas), or for a model behind an API (default: deep-research)",
  );

export function addEvaluation(program: Command): void {
  addEval(program);
  addMine(program);
  addAsk(program);
  addServe(program);
  addJudge(program);
}

function addEval(program: Command): void {
  const command = program
    .command("eval")
    .description("evaluate a team, trained here or behind an API, on its suites or on a benchmark")
    .argument("[team]", TEAM)
    .addOption(recipeOption())
    .addOption(armOption())
    .addOption(seedOption())
    .addOption(settingOption())
    .addOption(judgeOption());
  addSuiteOptions(command);
  addWatchOptions(command);
  command
    .option(
      "--results <folder>",
      "with --suite or --watch: folder of results; finished evaluations in it are reused (default: evaluations)",
      path("--results"),
    )
    .action(async (target, options) => (await import("../eval.ts")).evaluateOrWatch(target, options));
}

function addSuiteOptions(command: Command): void {
  command
    .option(
      "--suite <name>",
      "evaluate one suite: gaia, xbench, webwalkerqa, reasoning-gym, <file>.jsonl, a suite of the run or recipe, or the recipe's name for its held-out questions",
    )
    .option("--data <path>", "with --suite: data of the benchmark (docs/benchmarks.md)")
    .option(
      "--criteria <file>",
      "with a --suite that a model judges (xbench, webwalkerqa): file of instructions for the judge, such as the official prompt",
    )
    .addOption(
      new Option(
        "--runs <n>",
        "with --suite: number of times to ask each question (default: 3; for a suite of the run or recipe, the number in its settings)",
      ).argParser(positiveInteger("--runs")),
    )
    .addOption(
      new Option("--attachments <which>", "with --suite gaia: which questions to ask (docs/benchmarks.md)").choices(
        Attachments.options,
      ),
    );
  addBudgets(command);
}

/** Options of `eval` that `--watch` refuses: a watch has its settings in the team file. */
const NOT_WITH_WATCH = [
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
  "budgetHours",
  "budgetUsd",
  "budgetToolCalls",
  "budgetToolUsd",
];

function addWatchOptions(command: Command): void {
  command
    .addOption(
      new Option(
        "--watch <location>",
        "evaluate each checkpoint that appears in this folder or under s3://<bucket>/<prefix>",
      ).conflicts(NOT_WITH_WATCH),
    )
    .option(
      "--team <file>",
      "with --watch: JSON file that names the recipe, the agent whose checkpoints are watched and the other agents' models",
    )
    .addOption(
      new Option("--every <seconds>", "with --watch: seconds between polls (default: 10)").argParser(
        positive("--every"),
      ),
    );
}

function addMine(program: Command): void {
  const command = program
    .command("mine")
    .description("find the questions that a team mostly fails, and write them as a file of questions to train on")
    .argument("<team>", TEAM)
    .option("--train", "ask the training questions")
    .option(
      "--suite <name>",
      "ask the questions of a file, <file>.jsonl, or of a suite of the run or recipe whose questions come from a file",
    )
    .addOption(
      new Option("--below <share>", "write the questions whose share of correct answers is below this")
        .argParser(share("--below"))
        .default(0.3),
    )
    .addOption(
      new Option("--samples <k>", "number of times to ask each question")
        .argParser(positiveInteger("--samples"))
        .default(8),
    )
    .requiredOption("--to <file.jsonl>", "file to write, which must not exist", path("--to"))
    .addOption(recipeOption())
    .addOption(armOption())
    .addOption(seedOption())
    .addOption(settingOption())
    .addOption(
      new Option("--results <folder>", "folder in which answers are kept, so that the command can resume")
        .argParser(path("--results"))
        .default("evaluations"),
    );
  addBudgets(command);
  command.action(async (target, options) => (await import("../mine.ts")).mine(target, options));
}

function addAsk(program: Command): void {
  program
    .command("ask")
    .description("ask a team a question of your own and watch it work")
    .argument("<question>", "the question, in quotes")
    .option(
      "--team <team>",
      "a run that finished here, a recipe, a JSON team file, or openai:<base url>#<model>",
      "atlas",
    )
    .addOption(temperatureOption("sampling temperature; 0 is greedy").default(0))
    .addOption(armOption())
    .addOption(seedOption().default(1))
    .addOption(settingOption("agents.main.limits.turns=4"))
    .action(async (question, options) => (await import("../ask.ts")).ask(question, options));
}

function addServe(program: Command): void {
  program
    .command("serve")
    .description(
      "serve a trained team to apps, as an API compatible with OpenAI's and Anthropic's, whose models are the agents",
    )
    .argument("<team>", "a run that finished here, or a folder with one model per agent, as <folder>/<agent>")
    .addOption(
      new Option("--port <n>", "port to listen on; 0 takes a free one").argParser(port("--port")).default(8080),
    )
    .option(
      "--host <address>",
      "address to listen on; any address but a loopback one needs a key in MGRPO_SERVE_KEY",
      "127.0.0.1",
    )
    .addOption(temperatureOption("sampling temperature for requests that set none (default: the training temperature)"))
    .addOption(settingOption("agents.main.engine.slots=8"))
    .action(async (team, options) => (await import("../serve.ts")).serveTeam(team, options));
}

function addJudge(program: Command): void {
  program
    .command("judge")
    .description("check a judge model before it decides rewards or scores")
    .command("check")
    .description("compare a judge with human labels of answers or of sub-agents' work, and list the disagreements")
    .argument(
      "<labels.jsonl>",
      "one object per line: question, reference, answer, correct (true or false); or task, report, score (0 to 1) and optionally steps; in both, optionally id",
    )
    .option("--recipe <recipe>", "recipe whose judge is checked (default: atlas, which has none, so it needs --judge)")
    .addOption(judgeOption())
    .option("--criteria <file>", "instructions for the judge, instead of the recipe's")
    .addOption(settingOption("judge.votes=3"))
    .action(async (file, options) => (await import("../judge/check.ts")).checkJudge(file, options));
}
