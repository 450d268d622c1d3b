/** @file Reads the finished, scored rollouts of a closed step for trackers of traces. */
import { basename, isAbsolute } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { TracedRollout } from "../../core/monitoring/spans.ts";
import type { Store } from "../../core/ports.ts";
import { readLatencies, readRollout } from "../conversations.ts";
import { modelsOf } from "./base-models.ts";
import { readGroups, readStep } from "./read-records.ts";

/** Without those that were lost, and those that the store no longer has. */
export async function readTracedRollouts(store: Store, config: RunConfig, step: number): Promise<TracedRollout[]> {
  const { run, trackContent: content } = config;
  const models = Object.fromEntries(
    Object.entries(modelsOf(config)).map(([agent, model]) => [agent, nameForOthers(model)]),
  );
  const latencies = await readLatencies(store, run, step);
  const groups = await readGroups(store, await readStep(store, run, step));
  const found = groups.flatMap((group) =>
    Object.keys(group.rollouts).map(async (rollout): Promise<TracedRollout[]> => {
      const address = { run, phase: "train", step, group: group.group, rollout: Number(rollout) };
      const stored = await readRollout(store, address);
      if (!stored || stored.outcome.status === "failed") return [];
      const { outcome, invocations } = stored;
      return [{ outcome, invocations, group, models, latencies, content }];
    }),
  );
  return (await Promise.all(found)).flat();
}

/** Traces leave this machine: a path that is absolute or starts with a dot is cut to the name of its folder. */
const nameForOthers = (model: string): string => (isAbsolute(model) || model.startsWith(".") ? basename(model) : model);
