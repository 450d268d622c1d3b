/** @file The view of a step's time, from what its workers stored (gpu-workers/step-telemetry.ts). Clocks of several machines may differ. */
import type { BusyInterval, StepTelemetry } from "../../core/contracts/telemetry.ts";
import { readTelemetry } from "../../gpu-workers/step-telemetry.ts";
import type { TimelineView } from "../../ui/timeline-view.ts";
import type { Source } from "../show/source.ts";

/** Leaves out workers that were killed during the step or still work on it: they have stored nothing about it. */
export async function timelineView({ config, read }: Source, step: number): Promise<TimelineView> {
  const found = await read((store) => readTelemetry(store, config.run, step));
  const all = found.flatMap(({ sampling, training }) => [...sampling, ...training]);
  const start = all.reduce((least, [from]) => Math.min(least, from), Number.POSITIVE_INFINITY);
  const end = all.reduce((most, [, to]) => Math.max(most, to), start);
  const seconds = (spans: readonly BusyInterval[]) =>
    spans.map(([from, to]): [number, number] => [(from - start) / 1000, (to - start) / 1000]);
  // Workers of the whole team, which evaluate, come last.
  const position = ({ agent }: StepTelemetry) => [...Object.keys(config.agents), "*"].indexOf(agent);
  return {
    seconds: all.length === 0 ? 0 : (end - start) / 1000,
    workers: found
      .toSorted((a, b) => position(a) - position(b) || a.worker.localeCompare(b.worker))
      .map(({ worker, agent, sampling, training }) => {
        return { worker, agent, sampling: seconds(sampling), training: seconds(training) };
      }),
  };
}
