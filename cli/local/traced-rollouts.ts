/** @file Reads the finished rollouts of a closed step for trackers that record traces. */
import { basename, isAbsolute } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { TracedRollout } from "../../core/monitoring/spans.ts";
import type { Store } from "../../core/ports.ts";
import { readLatencies, readRollout, readStoredQuestions } from "../conversations.ts";
import type { NoteOf } from "../notes.ts";
import { modelsOf } from "./base-models.ts";
import { readGroups, readStep } from "./read-records.ts";

/** Omits failed rollouts, damaged ones that scoring excluded, and those that the store no longer has in full. */
export async function readTracedRollouts(
  store: Store,
  config: RunConfig,
  step: number,
  noteOf: NoteOf = () => undefined,
): Promise<TracedRollout[]> {
  const { run, trackContent: content } = config;
  const models = Object.fromEntries(
    Object.entries(modelsOf(config)).map(([agent, model]) => [agent, nameForOthers(model)]),
  );
  const notes = content ? await readNotes(store, run, noteOf) : undefined;
  const latencies = await readLatencies(store, run, step);
  const groups = await readGroups(store, await readStep(store, run, step));
  const found = groups.flatMap((group) =>
    Object.entries(group.rollouts).map(async ([rollout, score]): Promise<TracedRollout[]> => {
      const address = { run, phase: "train", step, group: group.group, rollout: Number(rollout) };
      const stored = await readRollout(store, address, "excluded" in score);
      if (!stored || stored.outcome.status === "failed") return [];
      const { outcome, invocations } = stored;
      const note = notes?.get(group.questionId);
      return [{ config, outcome, invocations, group, models, latencies, content, ...(note !== undefined && { note }) }];
    }),
  );
  return (await Promise.all(found)).flat();
}

/** By question id. Read only with `trackContent`: notes describe the question, so they are content. */
async function readNotes(store: Store, run: string, noteOf: NoteOf): Promise<Map<string, string | undefined>> {
  const { train } = await readStoredQuestions(store, run);
  return new Map(train.map((question) => [question.id, noteOf(question)]));
}

/** Traces leave this machine: a path that is absolute or starts with a dot is cut to its last component. */
const nameForOthers = (model: string): string => (isAbsolute(model) || model.startsWith(".") ? basename(model) : model);
