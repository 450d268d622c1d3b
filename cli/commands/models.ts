/** @file Commands about this machine and its models: `doctor`, `bench`, `pretrain` and `import`. */
import { type Command, Option } from "commander";
import { DEFAULT_BENCHMARKS, OTHER_BENCHMARKS } from "../benchmarks.ts";
import { path, positiveInteger } from "../terminal/fail.ts";
import { collect, recipeArgument } from "./options.ts";

export function addModels(program: Command): void {
  addDoctor(program);
  addBench(program);
  addPretrain(program);
  addImport(program);
}

function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("check this machine, and say how to install what is missing")
    .option(
      "--model <model>",
      "model to describe, as a folder, hf:<owner>/<name>, s3:// prefix or GGUF file: what it is, whether training supports its chat template, and what memory it needs",
    )
    .addOption(
      new Option("--set <path=value>", "with --model: a setting of its agent (repeatable)")
        .argParser(collect)
        .default([], "none"),
    )
    .addOption(
      new Option("--install <provider>", "download the CUDA 12 provider of the compiled engine from NuGet and test it")
        .choices(["cuda"])
        .conflicts("model"),
    )
    .action(async (options) => (await import("../doctor.ts")).doctor(options));
}

function addBench(program: Command): void {
  program
    .command("bench")
    .description("measure the speed and memory of this machine; prints JSON Lines (`peers`: tables)")
    .argument(
      "[name...]",
      `names of benchmarks: ${DEFAULT_BENCHMARKS.join(", ")} (these by default), ${OTHER_BENCHMARKS.join(", ")}`,
    )
    .action(async (names) => (await import("../bench.ts")).bench(names));
}

function addPretrain(program: Command): void {
  program
    .command("pretrain")
    .description("train a recipe's base models on its demonstrations, from random weights")
    .addArgument(recipeArgument())
    .option("--only <folders...>", "base models to make, by the names or paths of their folders, instead of all")
    .addOption(
      new Option("--to <folder>", "folder to write them to, instead of the recipe's own").argParser(path("--to")),
    )
    .addOption(
      new Option("--tokens <n>", "tokens of demonstrations to train on, instead of the recipe's").argParser(
        positiveInteger("--tokens"),
      ),
    )
    .action(async (recipe, options) => (await import("../pretrain.ts")).pretrain(recipe, options));
}

function addImport(program: Command): void {
  program
    .command("import")
    .description("convert a GGUF file into a Hugging Face folder, which can then be trained")
    .argument("<file>", "the .gguf file")
    .requiredOption("--to <folder>", "folder to write, which must not exist", path("--to"))
    .addOption(new Option("--dtype <name>", "data type of the weights").choices(["fp32", "bf16"]).default("fp32"))
    .action(async (file, options) => (await import("../import-model.ts")).importModel(file, options));
}
