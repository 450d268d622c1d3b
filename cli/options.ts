/** @file Options that several commands take. */
import { Option } from "commander";
import { Arm } from "../core/contracts/config.ts";
import { count, integer, positive } from "./terminal/fail.ts";

export const collect = (value: string, before: string[]) => [...before, value];
export const setting = () =>
  new Option("--set <path=value>", "a setting of the run config, e.g. algorithm.clipHigh=0.3 (repeatable)")
    .argParser(collect)
    .default([], "none");
export const seed = () => new Option("--seed <n>", "seed of every random draw").argParser(integer("--seed"));
export const extendHours = () =>
  new Option("--extend-hours <n>", "raise the budget.hours of a run that is there by so many").argParser(
    positive("--extend-hours"),
  );
export const extendUsd = () =>
  new Option("--extend-usd <n>", "raise the budget.usd of a run that is there by so many").argParser(
    positive("--extend-usd"),
  );
export const extendToolCalls = () =>
  new Option(
    "--extend-tool-calls <n>",
    "raise the tools.budget.run.calls of a run or suite that is there by so many",
  ).argParser(count("--extend-tool-calls"));
export const extendToolUsd = () =>
  new Option(
    "--extend-tool-usd <n>",
    "raise the tools.budget.run.usd of a run or suite that is there by so many",
  ).argParser(positive("--extend-tool-usd"));
export const arm = () =>
  new Option("--arm <name>", "the method, a baseline, an ablation or the control").choices(Arm.options);

export const judge = () =>
  new Option("--judge <model>", "the model that judges: openai:<base url>#<model>, openai#<model> or bedrock#<model>");

export const install = () =>
  new Option("--install <provider>", "fetch the compiled engine's CUDA 12 provider from NuGet, and try it")
    .choices(["cuda"])
    .conflicts("model");
