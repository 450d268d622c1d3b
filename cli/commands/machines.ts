/** @file Commands for runs on several machines: `launch`, `halt`, `worker` and `dispatch`. */
import { type Command, Option } from "commander";
import { port, positive } from "../terminal/fail.ts";
import {
  addBudgets,
  armOption,
  recipeArgument,
  runArgument,
  seedOption,
  settingOption,
  stepsOption,
} from "./options.ts";

export function addMachines(program: Command): void {
  addLaunch(program);
  addHalt(program);
  addWorker(program);
  addDispatch(program);
}

function addLaunch(program: Command): void {
  const command = program
    .command("launch")
    .description(
      "start a run on a stage of `sst deploy`, or in the store that MGRPO_TABLE and MGRPO_BUCKET name, for workers anywhere",
    )
    .addArgument(recipeArgument())
    .addOption(stepsOption())
    .addOption(seedOption().default(1))
    .option(
      "--run <name>",
      "name of the run; that of an existing run resumes it. By default <recipe>-<arm>-seed<n>, with a number appended if that is taken",
    )
    .option("--stage <name>", "stage of `sst deploy` whose fleets work on the run")
    .addOption(armOption().default("mgrpo"))
    .addOption(settingOption());
  addBudgets(command);
  command.action(async (recipe, options) => (await import("../launch.ts")).launch(recipe, options));
}

function addHalt(program: Command): void {
  program
    .command("halt")
    .description(
      "halt a run on a stage or in the store that MGRPO_TABLE and MGRPO_BUCKET name; `launch` with its name as `--run` resumes it",
    )
    .addArgument(runArgument())
    .option("--stage <name>", "stage of `sst deploy` that the run is on")
    .action(async (run, options) => (await import("../halt.ts")).halt(run, options));
}

function addWorker(program: Command): void {
  program
    .command("worker")
    .description(
      "serve one agent of a run, or evaluate its team, in the store that MGRPO_TABLE and MGRPO_BUCKET name, until the run ends or you stop it",
    )
    .requiredOption("--run <name>", "name of the run")
    .requiredOption("--agent <name>", "name of the agent, or '*' to evaluate the whole team")
    .option(
      "--roles <list>",
      "comma-separated roles: rollout and train, or eval alone with --agent '*'",
      "rollout,train",
    )
    .addOption(
      new Option(
        "--port <n>",
        "port that other workers and apps connect to; 0, the default, takes a free one",
      ).argParser(port("--port")),
    )
    .option("--host <address>", "address to listen on, which the other workers and an app must reach", "127.0.0.1")
    .option("--url <url>", "URL that callers use instead, if the worker is behind a proxy")
    .action(async (options) => (await import("../worker.ts")).worker(options));
}

function addDispatch(program: Command): void {
  program
    .command("dispatch")
    .description(
      "run the functions that plan steps and score rollouts, in place of Lambda, against the store that MGRPO_TABLE and MGRPO_BUCKET name",
    )
    .addOption(
      new Option("--every <seconds>", "seconds between polls of the store").argParser(positive("--every")).default(1),
    )
    .action(async ({ every }) => (await import("../dispatch.ts")).dispatch({ everySeconds: every }));
}
