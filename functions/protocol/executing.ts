/** @file Executes what a reducer decided, in order. Every command is safe to repeat, so a crash in between costs nothing. */
import { parseOutcomeKey } from "../../core/contracts/keys.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Command } from "../../core/training/commands.ts";
import type { Context } from "../context.ts";
import { enqueueEvaluation } from "./evaluating.ts";
import { scoreAndFinalize } from "./scoring.ts";

export async function execute(context: Context, commands: readonly Command[]): Promise<void> {
  for (const command of commands) {
    switch (command.kind) {
      case "insert":
        await Promise.all(command.items.map(({ key, item }) => context.table.insert(key, item)));
        break;
      case "change": {
        const { applied } = await context.table.update(command.change);
        if (applied) await execute(context, command.then ?? []);
        break;
      }
      case "commit":
        await context.objects.commit(command.key, new TextEncoder().encode(canonicalJson(command.record)));
        break;
      case "score": {
        const address = parseOutcomeKey(command.key);
        if (address) await scoreAndFinalize(context, address);
        break;
      }
      case "enqueue":
        await enqueueEvaluation(context, command.key, command.last);
        break;
      case "together":
        await Promise.all(command.commands.map((one) => execute(context, [one])));
        break;
      case "delete":
        await context.objects.delete(command.keys);
        break;
    }
  }
}
