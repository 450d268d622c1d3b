/** @file The commands `sft`, supervised training before M-GRPO, and `import-traces`, which makes demonstrations for it. */
import { type Command, Option } from "commander";
import { nonNegative, number, path, positive, positiveInteger } from "../terminal/fail.ts";
import { armOption, collect, recipeArgument, seedOption, settingOption } from "./options.ts";

export function addSft(program: Command): void {
  const command = program
    .command("sft")
    .description("fine-tune a recipe's agents on demonstrations: a warm start for `mgrpo train`")
    .addArgument(recipeArgument())
    .requiredOption("--to <folder>", "folder to write each agent's model to, as <folder>/<agent>", path("--to"))
    .option("--agent <name>", "train only this agent")
    .addOption(armOption().default("mgrpo"))
    .addOption(seedOption().default(1))
    .addOption(settingOption("agents.main.lora.rank=8"));
  addSource(command);
  addTrainingOptions(command);
  command.action(async (recipe, options) => (await import("../sft.ts")).sft(recipe, options));
}

export function addImportTraces(program: Command): void {
  program
    .command("import-traces")
    .description("turn traces of existing agents into demonstrations for `mgrpo sft`")
    .argument("<files...>", "OpenTelemetry traces of model calls (OTLP JSON), or OpenAI messages (JSON Lines)")
    .requiredOption("--to <file.jsonl>", "file to write, which must not exist", path("--to"))
    .option("--agent <name>", "take only this agent's conversations, and those that name no agent")
    .option(
      "--as <name>",
      "agent of the recipe that the demonstrations are for, instead of the one that the traces name",
    )
    .addOption(
      new Option("--where <attribute=value>", "take only calls with this value of an attribute (repeatable)")
        .argParser(collect)
        .default([], "none"),
    )
    .option("--score <name>", "attribute or evaluation that scores a conversation; goes with --min-score")
    .addOption(new Option("--min-score <x>", "with --score: the lowest score to take").argParser(number("--min-score")))
    .option("--no-system", "leave out system messages, so that agents keep those of the recipe")
    .action(async (files, options) => (await import("../import-traces.ts")).importTracesTo(files, options));
}

function addSource(command: Command): void {
  command
    .addOption(
      new Option(
        "--demonstrations <file.jsonl>",
        "OpenAI messages with tool calls, one conversation per line, instead of the recipe's demonstrations",
      ).conflicts(["fromRun", "minReward"]),
    )
    .option(
      "--from-run <run>",
      "the correct rollouts of a run, or of the folder of an evaluation, instead of the recipe's demonstrations",
    )
    .addOption(
      new Option(
        "--min-reward <x>",
        "with --from-run: the lowest reward and correctness of a rollout (default: 0.9)",
      ).argParser(nonNegative("--min-reward")),
    );
}

function addTrainingOptions(command: Command): void {
  command
    .addOption(
      new Option("--epochs <n>", "passes over the demonstrations (default: 1)")
        .argParser(positive("--epochs"))
        .conflicts("tokens"),
    )
    .addOption(
      new Option("--tokens <n>", "tokens to train on, instead of a number of passes").argParser(
        positiveInteger("--tokens"),
      ),
    )
    .addOption(
      new Option("--batch-tokens <n>", "minimum number of tokens per step; demonstrations are never split")
        .argParser(positiveInteger("--batch-tokens"))
        .default(1024),
    )
    .addOption(
      new Option(
        "--learning-rate <x>",
        "AdamW's peak learning rate (default: 1e-3 for an adapter, 1e-4 for all weights)",
      ).argParser(positive("--learning-rate")),
    )
    .addOption(
      new Option("--held-out <share>", "share of the demonstrations that is not trained on")
        .argParser(nonNegative("--held-out"))
        .default(0.1),
    )
    .addOption(
      new Option("--evaluate-every <n>", "steps between held-out losses, each followed by a checkpoint")
        .argParser(positiveInteger("--evaluate-every"))
        .default(25),
    )
    .addOption(
      new Option("--patience <n>", "end after n held-out losses in a row without a new minimum")
        .argParser(positiveInteger("--patience"))
        .default(3),
    );
}
