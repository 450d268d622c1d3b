/** @file The commands `dev`, `train`, `init`, `resume` and `compare`, which run on this machine, and those of sft.ts. */
import { type Command, Option } from "commander";
import { Arm } from "../../core/contracts/config.ts";
import { parseArms, parseSeeds } from "../compare/plan.ts";
import { positiveInteger } from "../terminal/fail.ts";
import {
  addBudgets,
  armOption,
  collect,
  recipeArgument,
  runArgument,
  seedOption,
  settingOption,
  stepsOption,
} from "./options.ts";
import { addImportTraces, addSft } from "./sft.ts";

export function addTraining(program: Command): void {
  addDev(program);
  addTrain(program);
  addSft(program);
  addImportTraces(program);
  addInit(program);
  addResume(program);
  addCompare(program);
}

function addDev(program: Command): void {
  program
    .command("dev")
    .description("try one question without training: what each agent did, what a step would train on, what is wrong")
    .addArgument(recipeArgument())
    .option("--question <id>", "id of the question; by default the one that training draws first")
    .addOption(
      new Option("--rollouts <k>", "rollouts of the question, 2 or more")
        .argParser(positiveInteger("--rollouts"))
        .default(4),
    )
    .addOption(seedOption().default(1))
    .addOption(armOption().default("mgrpo"))
    .addOption(settingOption())
    .action(async (recipe, options) => (await import("../dev.ts")).dev(recipe, options));
}

function addTrain(program: Command): void {
  program
    .command("train")
    .description("train a recipe's team on this machine")
    .addArgument(recipeArgument())
    .addOption(stepsOption())
    .addOption(seedOption().default(1))
    .option(
      "--run <name>",
      "name of the run and of its folder under runs/; by default <recipe>-<arm>-seed<n>, with a number appended if that is taken",
    )
    .addOption(armOption().default("mgrpo"))
    .addOption(settingOption())
    .option("--open", "open the dashboard of the run in the browser; its link is shown on a terminal in any case")
    .action(async (recipe, options) => (await import("../train.ts")).train(recipe, options));
}

function addInit(program: Command): void {
  program
    .command("init")
    .description("add a starter recipe to this project: a small world, its questions, tools and rewards")
    .argument("[folder]", "folder to create", "team")
    .action(async (folder) => (await import("../init.ts")).init(folder));
}

function addResume(program: Command): void {
  const command = program
    .command("resume")
    .description("resume a run on this machine that was stopped, killed or halted")
    .addArgument(runArgument());
  addBudgets(command);
  command.option("--open", "open the dashboard of the run in the browser; its link is shown on a terminal in any case");
  command.action(async (run, options) => (await import("../resume.ts")).resume(run, options));
}

/** The default arms: all but `shared-policy`, which needs agents with the same model. */
const DEFAULT_ARMS = Arm.options.filter((arm) => arm !== "shared-policy");

function addCompare(program: Command): void {
  program
    .command("compare")
    .description("train several arms and seeds on the same number of sampled tokens, and compare their held-out scores")
    .addArgument(recipeArgument())
    .addOption(
      new Option("--arms <list>", "comma-separated arms; the first is the baseline of the comparison")
        .argParser(parseArms)
        .default(DEFAULT_ARMS, DEFAULT_ARMS.join(",")),
    )
    .addOption(
      new Option("--seeds <n>", "train with seeds 1 to n, or with a range such as 6-10")
        .argParser(parseSeeds)
        .default(parseSeeds("5"), "5"),
    )
    .addOption(
      new Option("--steps <n>", "training steps of the first arm, instead of the recipe's").argParser(
        positiveInteger("--steps"),
      ),
    )
    .addOption(
      new Option("--tokens <n>", "sampled tokens per run; by default as many as the first arm samples").argParser(
        positiveInteger("--tokens"),
      ),
    )
    .addOption(
      new Option("--jobs <n>", "runs to train at the same time; each uses about two cores")
        .argParser(positiveInteger("--jobs"))
        .default(1),
    )
    .addOption(
      new Option(
        "--vary <path=value,value>",
        "also train each arm with each of these values of a setting, one setting at a time (repeatable)",
      )
        .argParser(collect)
        .default([], "none"),
    )
    .addOption(
      new Option(
        "--from <source>",
        "start every arm, or one arm with <arm>=<source>, from the checkpoints of a run or of a folder with one per agent, such as ./warm; {seed} stands for each run's seed (repeatable)",
      )
        .argParser(collect)
        .default([], "none"),
    )
    .option(
      "--questions <file.jsonl>",
      "train on these questions; {seed} stands for each run's seed; the held-out ones stay those of the recipe",
    )
    .addOption(settingOption())
    .option(
      "--mixed",
      "accept runs from another commit, release, recipe, question set, config or base model; the results name them",
      false,
    )
    .option("--name <name>", "prefix of the runs' names, and folder under results/", "compare")
    .action(async (recipe, options) => (await import("../compare.ts")).compare(recipe, options));
}
