/** @file The view of a step's time, from what its workers stored (telemetry.ts). Clocks of several machines may differ. */
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { WorkerRecord } from "../../core/contracts/records.ts";
import { type BusyInterval, StepActivity } from "../../core/contracts/telemetry.ts";
import type { Store } from "../../core/ports.ts";
import type { TimelineView } from "../../ui/timeline-view.ts";
import type { Source } from "../show/source.ts";

/** Empty for a step that is open, and without workers that were killed. */
export async function timelineView({ config, read }: Source, step: number): Promise<TimelineView> {
  const found = await read((store) => readActivities(store, config.run, step));
  const all = found.flatMap(({ sampling, training }) => [...sampling, ...training]);
  const start = all.reduce((least, [from]) => Math.min(least, from), Number.POSITIVE_INFINITY);
  const end = all.reduce((most, [, to]) => Math.max(most, to), start);
  const seconds = (spans: readonly BusyInterval[]) =>
    spans.map(([from, to]): [number, number] => [(from - start) / 1000, (to - start) / 1000]);
  // Workers of the whole team, which evaluate, come last.
  const position = ({ agent }: StepActivity) => [...Object.keys(config.agents), "*"].indexOf(agent);
  return {
    seconds: all.length === 0 ? 0 : (end - start) / 1000,
    workers: found
      .toSorted((a, b) => position(a) - position(b) || a.worker.localeCompare(b.worker))
      .map(({ worker, agent, sampling, training }) => {
        return { worker, agent, sampling: seconds(sampling), training: seconds(training) };
      }),
  };
}

async function readActivities({ table, objects }: Store, run: string, step: number): Promise<StepActivity[]> {
  const workers = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  const found = workers.map(async (item) => {
    const key = objectKeys.activity(run, step, parse(WorkerRecord, item, `WORKER of ${run}`).worker);
    const bytes = await objects.get(key);
    return bytes ? [parseJson(StepActivity, bytes, key)] : [];
  });
  return (await Promise.all(found)).flat();
}
