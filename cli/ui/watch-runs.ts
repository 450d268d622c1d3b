/** @file Watches single runs and the list of runs for the dashboard pages that show them. */
import { StallDetector } from "../../core/monitoring/stall.ts";
import type { RunPulse, RunsView } from "../../ui/views.ts";
import { readNewestStep } from "../local/recorded-steps.ts";
import { findRun, statusVersion } from "../local/run-folder.ts";
import { openSource } from "../show/source.ts";
import { runPulse, runsView } from "./run-view.ts";
import { type Listener, Watch } from "./watch.ts";

export interface RunWatcher {
  /** Shows the listener the run now and after every change. Returns a function that unsubscribes it. */
  subscribe(run: string, listener: Listener<RunPulse>): () => void;
  /** The same for the list of runs. */
  subscribeList(listener: Listener<RunsView>): () => void;
  close(): void;
}

/** Seconds between two polls: `step` for newly closed steps, `records` for the open step's records, `list` for the list of runs. */
const POLL_SECONDS = { step: 0.5, records: 4, list: 4 };

export function openRunWatcher(report: (line: string) => void): RunWatcher {
  const runs = new Map<string, Watch<RunPulse>>();
  const poll = async (emit: (view: RunsView) => void) => emit(await runsView());
  const list = new Watch<RunsView>({ poll, seconds: POLL_SECONDS.list, report });
  return {
    subscribe(run, listener) {
      const watch = runs.get(run) ?? watchRun(run, (line) => report(`${run}: ${line}`));
      runs.set(run, watch);
      watch.add(listener);
      return () => {
        if (watch.remove(listener) === 0) runs.delete(run);
      };
    },
    subscribeList(listener) {
      list.add(listener);
      return () => void list.remove(listener);
    },
    close() {
      for (const watch of [list, ...runs.values()]) watch.stop();
      runs.clear();
    },
  };
}

interface RunWatchState {
  detector: StallDetector | undefined;
  /** How long the newest closed step took; null: unknown, as it is for a run in a store. */
  stepSeconds: number | null;
  /** When the open step's records were last read. */
  recordsAt: number;
  /** The version of the local run's status at the last poll: while it is the same, no step has closed. */
  version: string | undefined;
}

function watchRun(run: string, report: (line: string) => void): Watch<RunPulse> {
  const state: RunWatchState = {
    detector: undefined,
    stepSeconds: null,
    recordsAt: Number.NEGATIVE_INFINITY,
    version: undefined,
  };
  return new Watch<RunPulse>({
    seconds: POLL_SECONDS.step,
    report,
    async poll(emit, known) {
      const isDue = performance.now() - state.recordsAt >= POLL_SECONDS.records * 1000;
      const folder = findRun(run);
      const version = folder && statusVersion(folder);
      if (!isDue && version !== undefined && version === state.version) return;
      const source = await openSource(run);
      state.version = version;
      const { reason, step: closed } = source;
      const hasNews = known?.closed !== closed || known.state !== source.state;
      // Emitted before the other records are read, so that a page can load the closed step at once.
      if (known && hasNews) emit({ ...known, state: source.state, reason, closed });
      if (hasNews) state.stepSeconds = (folder && readNewestStep(folder)?.seconds) ?? null;
      if (!hasNews && !isDue) return;
      // Due at the next poll, too, if the records cannot be read now.
      state.recordsAt = Number.NEGATIVE_INFINITY;
      state.detector ??= new StallDetector(source.config);
      emit(await runPulse(source, state.detector, state.stepSeconds));
      state.recordsAt = performance.now();
    },
  });
}
