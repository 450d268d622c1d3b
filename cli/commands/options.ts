/** @file Arguments and options that several commands share. */
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { Arm } from "../../core/contracts/config.ts";
import { count, integer, positive } from "../terminal/fail.ts";
import { didYouMean } from "../terminal/nearest.ts";

export const recipe = () => new Argument("<recipe>", "name of a recipe, or folder of your own recipe");
export const run = () => new Argument("<run>", "name of the run");

/** Collects the values of a repeatable option. */
export const collect = (value: string, earlier: readonly string[]) => [...earlier, value];

export const setting = () =>
  new Option("--set <path=value>", "change a setting of the run config, e.g. algorithm.clipHigh=0.3 (repeatable)")
    .argParser(collect)
    .default([], "none");
export const steps = () =>
  new Option("--steps <n>", "number of training steps, instead of the recipe's").argParser(integer("--steps"));
export const seed = () => new Option("--seed <n>", "seed of all random draws").argParser(integer("--seed"));
export const arm = () => {
  const arms: readonly string[] = Arm.options;
  return new Option("--arm <name>", "what to train: the method (mgrpo), a baseline, an ablation or the control")
    .choices(arms)
    .argParser((value: string) => {
      if (arms.includes(value)) return value;
      throw new InvalidArgumentError(`Allowed choices are ${arms.join(", ")}${didYouMean(value, arms) || "."}`);
    });
};
export const judge = () =>
  new Option("--judge <model>", "judge model: openai:<base url>#<model>, openai#<model> or bedrock#<model>");

/** The options that raise the budget of an existing run (`ResumeOptions`). */
export function addExtensions(command: Command): void {
  const hours = new Option("--extend-hours <n>", "raise budget.hours of the existing run by n hours");
  const usd = new Option("--extend-usd <n>", "raise budget.usd of the existing run by n dollars");
  command.addOption(hours.argParser(positive("--extend-hours"))).addOption(usd.argParser(positive("--extend-usd")));
  addToolExtensions(command);
}

/** The options that raise only its tools' budget, which an evaluation has too. */
export function addToolExtensions(command: Command): void {
  const calls = new Option(
    "--extend-tool-calls <n>",
    "raise tools.budget.run.calls of the existing run or evaluation by n",
  );
  const usd = new Option(
    "--extend-tool-usd <n>",
    "raise tools.budget.run.usd of the existing run or evaluation by n dollars",
  );
  command
    .addOption(calls.argParser(count("--extend-tool-calls")))
    .addOption(usd.argParser(positive("--extend-tool-usd")));
}
