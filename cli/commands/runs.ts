/** @file Commands that inspect runs or take something from them: `runs`, `show`, `ui`, `track` and `export`. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { TrackerName } from "../../core/contracts/tracking.ts";
import { port } from "../terminal/fail.ts";
import { runArgument } from "./options.ts";

export function addRuns(program: Command): void {
  const runs = program
    .command("runs")
    .description("list the runs under runs/, and those in the store that the environment names")
    .action(async () => (await import("../runs.ts")).listRuns());
  addShow(program);
  addShow(runs);
  addUi(program);
  addTrack(program);
  addExport(program);
}

function addUi(program: Command): void {
  program
    .command("ui")
    .description(
      "serve the dashboard of the runs here and in the store that the environment names: curves, groups, rollouts token by token, evaluations",
    )
    .argument("[run]", "the run that the printed link shows")
    .addOption(new Option("--port <n>", "port to listen on; 0 takes a free one").argParser(port("--port")).default(0))
    .option(
      "--host <address>",
      "address to listen on; anyone who has the link and can reach it can read every run",
      "127.0.0.1",
    )
    .option("--stage <name>", "stage of `sst deploy` whose runs it shows, besides those here")
    .option("--open", "open the link in the browser")
    .action(async (run, options) => (await import("../ui.ts")).ui(run, options));
}

/** `mgrpo show` and `mgrpo runs show` are the same command. */
function addShow(parent: Command): void {
  parent
    .command("show")
    .description("show a run: its steps, or every turn, tool call, reward and advantage of a step, group or rollout")
    .addArgument(runArgument())
    .argument(
      "[address]",
      "<step>, <step>/<group> or <step>/<group>/<rollout>, counted from 0; or `cases`: the case studies of its recipe, before and after training",
    )
    .option("--html [file]", "write a self-contained HTML page instead; by default into the run's folder")
    .action(async (run, address, options) => (await import("../show.ts")).show(run, address, options));
}

function addTrack(program: Command): void {
  const names = TrackerName.options.join(", ");
  program
    .command("track")
    .description("send a run's metrics to trackers, except those that they already have")
    .addArgument(runArgument())
    .addOption(
      new Option("--to <list>", `comma-separated: ${names}; by default those of the run's config`).argParser(
        (value: string) => value.split(",").map(trackerName),
      ),
    )
    .action(async (run, options) => (await import("../track.ts")).track(run, options));
}

function trackerName(text: string): TrackerName {
  const name = TrackerName.safeParse(text.trim());
  if (name.success) return name.data;
  throw new InvalidArgumentError(name.error.issues.map(({ message }) => message).join("; "));
}

function addExport(program: Command): void {
  program
    .command("export")
    .description("write the weights after a run's last finished step as Hugging Face folders, under runs/<run>/")
    .addArgument(runArgument())
    .option("--merged", "merge adapters into their base models and write whole models")
    .addOption(
      new Option("--dtype <name>", "data type of the weights; by default fp32 for trained weights").choices([
        "fp32",
        "bf16",
      ]),
    )
    .action(async (run, options) => (await import("../export.ts")).exportRun(run, options));
}
