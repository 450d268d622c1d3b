/** @file Arguments and options that several commands share. */
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { Arm } from "../../core/contracts/config.ts";
import { MAX_TEMPERATURE } from "../../core/contracts/rollout.ts";
import { integer, nonNegative, positive, positiveInteger } from "../terminal/fail.ts";
import { didYouMean } from "../terminal/nearest.ts";

export const recipeArgument = () => new Argument("<recipe>", "name of a recipe, or folder of your own recipe");
export const runArgument = () => new Argument("<run>", "name of the run");

/** Collects the values of a repeatable option. */
export const collect = (value: string, earlier: readonly string[]) => [...earlier, value];

export const settingOption = (example = "algorithm.clipHigh=0.3") =>
  new Option("--set <path=value>", `change a setting of the run config, e.g. ${example} (repeatable)`)
    .argParser(collect)
    .default([], "none");
export const stepsOption = () =>
  new Option("--steps <n>", "number of training steps, instead of the recipe's").argParser(integer("--steps"));
export const seedOption = () => new Option("--seed <n>", "seed of all random draws").argParser(integer("--seed"));
export const armOption = () => {
  const arms: readonly string[] = Arm.options;
  return new Option("--arm <name>", "arm of the recipe: the method (mgrpo), a baseline, an ablation or the control")
    .choices(arms)
    .argParser((value: string) => {
      if (arms.includes(value)) return value;
      throw new InvalidArgumentError(`Allowed choices are ${arms.join(", ")}${didYouMean(value, arms) || "."}`);
    });
};
export const temperatureOption = (description: string) =>
  new Option("--temperature <n>", description).argParser((text: string) => {
    const temperature = nonNegative("--temperature")(text);
    if (temperature <= MAX_TEMPERATURE) return temperature;
    throw new InvalidArgumentError(`--temperature takes a number from 0 to ${MAX_TEMPERATURE}.`);
  });
export const judgeOption = () =>
  new Option("--judge <model>", "judge model: openai:<base url>#<model>, openai#<model> or bedrock#<model>");

/** The options that raise the budget of an existing run or evaluation (`BudgetOptions`). */
export function addBudgets(command: Command): void {
  const hours = new Option(
    "--budget-hours <n>",
    "raise budget.hours of the existing run or evaluation to n in all; repeating the command does not add to it",
  );
  const usd = new Option("--budget-usd <n>", "raise budget.usd of the existing run or evaluation to n dollars in all");
  const calls = new Option(
    "--budget-tool-calls <n>",
    "raise tools.budget.run.calls of the existing run or evaluation to n in all",
  );
  const toolUsd = new Option(
    "--budget-tool-usd <n>",
    "raise tools.budget.run.usd of the existing run or evaluation to n dollars in all",
  );
  command
    .addOption(hours.argParser(positive("--budget-hours")))
    .addOption(usd.argParser(positive("--budget-usd")))
    .addOption(calls.argParser(positiveInteger("--budget-tool-calls")))
    .addOption(toolUsd.argParser(positive("--budget-tool-usd")));
}
