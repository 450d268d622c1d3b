/**
 * @file Executes a reducer's commands in order, and those of a `parallel` concurrently. Every command is safe to repeat. A repeated
 * `insert-first` or `update` does not execute its `rest` or `then` again: after a crash in between, a later tick's commands complete the work.
 */
import { parseOutcomeKey } from "../core/contracts/keys.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import type { Insertion, StoreCommand } from "../core/training/store-commands.ts";
import { type Context, readControlledDeployment } from "./context.ts";
import { enqueueEvaluation } from "./evaluating.ts";

export async function execute(context: Context, commands: readonly StoreCommand[]): Promise<void> {
  for (const command of commands) await executeOne(context, command);
}

async function executeOne(context: Context, command: StoreCommand): Promise<void> {
  const { objects, table } = context;
  switch (command.kind) {
    case "insert":
      return insertAll(context, command.items);
    case "insert-first": {
      const { first, rest } = command;
      if (await table.insert(first.key, first.item)) await insertAll(context, rest);
      return;
    }
    case "update": {
      const { applied } = await table.update(command.change);
      if (applied) await execute(context, command.then ?? []);
      return;
    }
    case "commit":
      await objects.commit(command.key, new TextEncoder().encode(canonicalJson(command.record)));
      return;
    case "score":
      return requestScores(context, [command.key]);
    case "enqueue":
      return enqueueEvaluation(context, command.key, command.isLast);
    case "parallel":
      await Promise.all(command.commands.map((one) => executeOne(context, one)));
      return;
    case "delete":
      return objects.delete(command.keys);
    case "delete-item":
      return table.delete(command.key);
  }
}

async function insertAll({ table }: Context, items: readonly Insertion[]): Promise<void> {
  await Promise.all(items.map(({ key, item }) => table.insert(key, item)));
}

/** Requests scores for these outcomes, outside this tick: on AWS by score-rollout, otherwise by this process. */
export async function requestScores(context: Context, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const deployment = await readControlledDeployment(context);
  if (deployment) return deployment.events.redeliver(keys);
  for (const key of keys) {
    const address = parseOutcomeKey(key);
    if (address) context.scoringQueue.later(address.run, key);
  }
}
