/** @file The commands and their options. Each command has a file of its own, loaded when it is called. */
import { createRequire } from "node:module";
import { Command, Option } from "commander";
import { Arm } from "../core/contracts/config.ts";
import { addCloud } from "./cloud/commands.ts";
import { parseArms } from "./compare/plan.ts";
import { addEvaluation } from "./evaluation-commands.ts";
import {
  arm,
  collect,
  extendHours,
  extendToolCalls,
  extendToolUsd,
  extendUsd,
  install,
  seed,
  setting,
} from "./options.ts";
import { count, integer, notNegative, positive } from "./terminal/fail.ts";
import { MGRPO } from "./terminal/name.ts";

/** Errors of parsing are thrown too, already printed. */
export function createProgram(): Command {
  const program = new Command("mgrpo")
    .exitOverride()
    .description("Train teams of language models together: M-GRPO for a main agent and its sub-agents.")
    .showHelpAfterError(`(${MGRPO} --help lists the commands)`)
    .version(packageVersion());

  program
    .command("train")
    .description("train a recipe's team on this machine")
    .argument("<recipe>", "a recipe's name, or the folder of your own")
    .addOption(new Option("--steps <n>", "training steps").argParser(integer("--steps")))
    .addOption(seed())
    .option("--run <name>", "name of the run, its folder under runs/")
    .addOption(arm())
    .addOption(setting())
    .action(async (recipe, options) => (await import("./train.ts")).train(recipe, options));

  program
    .command("init")
    .description("write a recipe to start from into this project: a small world, its questions, tools and rewards")
    .argument("[folder]", "a new folder", "team")
    .action(async (folder) => (await import("./init.ts")).init(folder));

  program
    .command("resume")
    .description("go on with a run that was stopped, killed or halted")
    .argument("<run>")
    .addOption(extendHours())
    .addOption(extendUsd())
    .addOption(extendToolCalls())
    .addOption(extendToolUsd())
    .action(async (run, options) => (await import("./resume.ts")).resume(run, options));

  const runs = program
    .command("runs")
    .description("list the runs in this folder")
    .action(async () => (await import("./runs.ts")).listRuns());

  for (const parent of [program, runs]) addShow(parent);

  program
    .command("export")
    .description("write a finished run's weights as Hugging Face folders, also from the store in the environment")
    .argument("<run>")
    .option("--merged", "adapters added to their base: whole models")
    .addOption(new Option("--dtype <name>", "numbers of the weights").choices(["fp32", "bf16"]))
    .action(async (run, options) => (await import("./export.ts")).exportRun(run, options));

  addEvaluation(program);

  program
    .command("ask")
    .description("ask a team a question of your own, and see it work")
    .argument("<question>")
    .option(
      "--team <team>",
      "a run that finished here, a recipe, a JSON config with its recipe and agents, or openai:<base url>#<model>",
      "atlas",
    )
    .addOption(
      new Option("--temperature <n>", "of all sampling; 0 is greedy")
        .argParser(notNegative("--temperature"))
        .default(0),
    )
    .addOption(arm())
    .addOption(seed().default(1))
    .addOption(setting())
    .action(async (question, options) => (await import("./ask.ts")).ask(question, options));

  program
    .command("compare")
    .description("train several arms with several seeds at equal sampling, and say how they differ: results/<name>/")
    .argument("<recipe>", "a recipe's name, or the folder of your own")
    .addOption(
      new Option("--arms <list>", "arms, with commas between; all others are held against the first")
        .argParser(parseArms)
        .default(Arm.options, Arm.options.join(",")),
    )
    .addOption(new Option("--seeds <n>", "seeds 1 to n").argParser(count("--seeds")).default(5))
    .addOption(new Option("--steps <n>", "training steps of the first arm").argParser(count("--steps")))
    .addOption(
      new Option(
        "--tokens <n>",
        "sampled tokens of every run, instead of what the first arm samples in its steps",
      ).argParser(count("--tokens")),
    )
    .addOption(
      new Option("--jobs <n>", "runs at a time; each uses about two cores").argParser(count("--jobs")).default(1),
    )
    .addOption(
      new Option(
        "--vary <path=value,value>",
        "a setting of which every value is tried beside each arm as it is, one setting at a time (repeatable)",
      )
        .argParser(collect)
        .default([], "none"),
    )
    .addOption(setting())
    .option("--name <name>", "names its runs, and its folder under results/", "compare")
    .action(async (recipe, options) => (await import("./compare.ts")).compare(recipe, options));

  program
    .command("worker")
    .description("serve one agent of a run whose store is in the environment")
    .requiredOption("--run <name>")
    .requiredOption("--agent <name>", "the agent, or '*' to evaluate the whole team")
    .option("--roles <list>", "of rollout, train, eval", "rollout,train")
    .addOption(
      new Option("--port <n>", "port to answer delegations on; 0 takes a free one").argParser(integer("--port")),
    )
    .option("--host <address>", "address to answer delegations on, one that the other workers reach", "127.0.0.1")
    .option("--url <url>", "what they reach it by, if that differs: behind a proxy, https://...")
    .action(async (options) => (await import("./worker.ts")).worker(options));

  program
    .command("dispatch")
    .description("run the functions where there is no Lambda, against the store in the environment")
    .addOption(
      new Option("--every <seconds>", "time between two looks at the store").argParser(positive("--every")).default(1),
    )
    .action(async (options) => (await import("./dispatch.ts")).dispatch(options));

  program
    .command("launch")
    .description("start a run on a stage of `sst deploy`, or on the store in the environment for workers anywhere")
    .argument("<recipe>", "a recipe's name, or the folder of your own")
    .addOption(new Option("--steps <n>", "training steps").argParser(integer("--steps")))
    .addOption(seed())
    .option("--run <name>", "name of the run")
    .option("--stage <name>", "start it on this stage of `sst deploy`, whose fleets give it workers")
    .addOption(arm())
    .addOption(setting())
    .addOption(extendHours())
    .addOption(extendUsd())
    .addOption(extendToolCalls())
    .addOption(extendToolUsd())
    .action(async (recipe, options) => (await import("./launch.ts")).launch(recipe, options));

  program
    .command("halt")
    .description("stop a run on a stage of `sst deploy`, or on the store in the environment; launched again it goes on")
    .argument("<run>")
    .option("--stage <name>", "the stage of `sst deploy` that it runs on")
    .action(async (run, options) => (await import("./halt.ts")).halt(run, options));

  addCloud(program);

  program
    .command("pretrain")
    .description("make a recipe's base models from its demonstrations")
    .argument("<recipe>")
    .option("--only <folders...>", "base models to make, by their folders' names; all by default")
    .option("--to <folder>", "where their folders go, instead of where the recipe has them")
    .addOption(
      new Option("--tokens <n>", "tokens of demonstrations, instead of the recipe's").argParser(count("--tokens")),
    )
    .action(async (recipe, options) => (await import("./pretrain.ts")).pretrain(recipe, options));

  program
    .command("bench")
    .description("measure this machine: one JSON object per line")
    .argument(
      "[name...]",
      "engine, rollouts, store, bundles, run, lora, memory, run-memory; all by default; gpu where there is one",
    )
    .action(async (names) => (await import("./bench.ts")).bench(names));

  program
    .command("doctor")
    .description("what is installed, what works, what is missing and how to get it")
    .option("--model <folder>", "what sampling from this model and training it needs in memory, and whether it fits")
    .addOption(
      new Option("--set <path=value>", "with --model: a setting of its agent").argParser(collect).default([], "none"),
    )
    .addOption(install())
    .action(async (options) => (await import("./doctor.ts")).doctor(options));

  return program;
}

/** `mgrpo show`, and `mgrpo runs show`, which is the same. */
function addShow(parent: Command): void {
  parent
    .command("show")
    .description("look into a run, a step, a group (one question) or a rollout")
    .argument("<run>")
    .argument("[address]", "step, step/group or step/group/rollout, from 0; or cases: before and after, side by side")
    .option("--html [file]", "write a self-contained page instead")
    .action(async (run, address, options) => (await import("./show.ts")).show(run, address, options));
}

/** The package finds itself by name, in a checkout and installed alike. */
function packageVersion(): string {
  const { version } = createRequire(import.meta.url)("mgrpo/package.json") as { version: string };
  return version;
}
