/** @file The whole command line as commander definitions. Building it runs nothing: each command loads its own module when invoked. */
import { createRequire } from "node:module";
import { Command } from "commander";
import { addCloud } from "./commands/cloud.ts";
import { addEvaluation } from "./commands/evaluation.ts";
import { addMachines } from "./commands/machines.ts";
import { addModels } from "./commands/models.ts";
import { addRuns } from "./commands/runs.ts";
import { addTraining } from "./commands/training.ts";
import { MGRPO } from "./terminal/name.ts";

/** Parse errors are printed, with a suggestion for a mistyped command or option, and thrown as CommanderError. */
export function buildProgram(): Command {
  const program = new Command("mgrpo")
    .exitOverride()
    .description("Train teams of language models together: M-GRPO for a main agent and its sub-agents.")
    .showSuggestionAfterError()
    .version(packageVersion());
  addTraining(program.commandsGroup("Train on this machine:"));
  addRuns(program.commandsGroup("Look at runs:"));
  addEvaluation(program.commandsGroup("Evaluate:"));
  addMachines(program.commandsGroup("Train on several machines:"));
  addCloud(program);
  addModels(program.commandsGroup("This machine and its models:"));
  pointToHelp(program, MGRPO);
  // Lists `help` in the last group.
  return program.helpCommand(true);
}

/** Makes each command point to its own help after a parse error. */
function pointToHelp(command: Command, name: string): void {
  const lists = command.commands.length > 0 ? "commands" : "arguments and options";
  command.showHelpAfterError(`(${name} --help lists the ${lists})`);
  for (const inner of command.commands) pointToHelp(inner, `${name} ${inner.name()}`);
}

/** The package finds itself by name, both in a checkout and when installed. */
function packageVersion(): string {
  const { version } = createRequire(import.meta.url)("mgrpo/package.json") as { version: string };
  return version;
}
