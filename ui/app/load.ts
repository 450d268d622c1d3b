/** @file How a page loads its view, follows its changes, and handles keys. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunPulse, RunsView, RunView } from "../views.ts";
import { type StreamState, useStream } from "./live.ts";
import { Reloader } from "./reloader.ts";
import { RunLoader, revisionOf } from "./run-loader.ts";
import { type Loaded, server, useSource } from "./source.ts";

/** Codes of failures that can pass although the run does not change. */
const OUTAGES: ReadonlySet<string> = new Set(["no-server", "no-view", "store-unreachable"]);

/**
 * The view at a path of the API.
 * @param keepsPrevious whether the previous view stays while another path loads: for pages that take step and rollout from the view,
 * not from the path.
 * @param revision the view is loaded again when it changes (reloader.ts); until that succeeds, the previous one stays. While the server or
 * the store does not answer, a load is repeated every few seconds.
 */
export function useView<View>(path: string, keepsPrevious = false, revision?: string): Loaded<View> {
  const source = useSource();
  const [loaded, setLoaded] = useState<Loaded<View> & { readonly path?: string }>({});
  const reload = useRef((_revision: string | undefined): void => {});
  useEffect(() => {
    const abort = new AbortController();
    const reloader = new Reloader();
    const load = async () => {
      const next = await source.load<View>(path, abort.signal);
      setLoaded((known) => (next.failure && known.view && known.path === path ? known : { ...next, path }));
      return !OUTAGES.has(next.failure?.code ?? "");
    };
    // Rejects only once it is aborted.
    reload.current = (wanted) => void reloader.request(wanted, load).catch(() => {});
    return () => {
      abort.abort();
      reloader.close();
    };
  }, [source, path]);
  useEffect(() => reload.current(revision), [source, path, revision]);
  return keepsPrevious || loaded.path === path ? loaded : {};
}

/** What the run is doing now, as it changes. */
export const usePulse = (run: string): StreamState<RunPulse> => useStream<RunPulse>(`/api/runs/${run}/events`, "pulse");

/** A run's view that grows with the run. */
export function useLiveRun(run: string): Loaded<RunView> & { readonly pulse: RunPulse | undefined } {
  const { view: pulse, failure } = usePulse(run);
  const isConnected = failure === undefined;
  const revision = pulse && revisionOf(pulse);
  const [loaded, setLoaded] = useState<Loaded<RunView>>({});
  const loader = useRef(loaderOf(run));
  if (loader.current.run !== run) loader.current = loaderOf(run);
  useEffect(() => {
    const own = loader.current;
    return () => own.close();
  }, [run]);
  useEffect(() => {
    // Runs again once the server is back: the run may have changed while it was down.
    if (!isConnected) return;
    const own = loader.current;
    void own.load(revision, (next) => loader.current === own && setLoaded(next));
  }, [run, revision, isConnected]);
  return { ...(loaded.view && loaded.view.run !== run ? {} : loaded), pulse };
}

const loaderOf = (run: string): RunLoader => new RunLoader(run, (path) => server.load<RunView>(path));

/** The list of runs, as it changes. */
export function useRuns(): Loaded<RunsView> {
  const loaded = useView<RunsView>("/api/runs");
  const { view = loaded.view, failure } = useStream<RunsView>("/api/events", "runs");
  if (!view) return loaded;
  return { view: failure ? { ...view, failure: failure.message } : view };
}

/** Calls a pressed key's handler, unless the user is typing or holds Ctrl, Meta or Alt. */
export function useKeys(handlers: Readonly<Record<string, () => void>>): void {
  const newest = useRef(handlers);
  newest.current = handlers;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      newest.current[event.key]?.();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
