/** @file How a page gets its view from the server, and hears what happens. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Failure, RunPulse, RunView } from "../views.ts";

export interface Loaded<View> {
  readonly view?: View;
  readonly failure?: Failure;
}

/**
 * The view at a path of the API.
 * @param keeps whether the view before stays while another path loads: for pages that draw all of it by the address that it holds.
 */
export function useView<View>(path: string, keeps = false): Loaded<View> {
  const [loaded, setLoaded] = useState<Loaded<View> & { readonly path?: string }>({});
  useEffect(() => {
    const abort = new AbortController();
    load<View>(path, abort.signal).then(
      (next) => setLoaded({ ...next, path }),
      () => {},
    );
    return () => abort.abort();
  }, [path]);
  return keeps || loaded.path === path ? loaded : {};
}

/** Rejects only if the signal aborts. */
async function load<View>(path: string, signal: AbortSignal): Promise<Loaded<View>> {
  try {
    const response = await fetch(path, { signal });
    if (response.status === 401) return { failure: { code: "no-key", message: await response.text() } };
    const body = await response.json();
    return response.ok ? { view: body as View } : { failure: body as Failure };
  } catch (error) {
    if (signal.aborted) throw error;
    return { failure: { code: "no-server", message: "the server does not answer: is `mgrpo ui` still running?" } };
  }
}

/** What the run does now; undefined until the first news. */
export function usePulse(run: string): RunPulse | undefined {
  const [pulse, setPulse] = useState<RunPulse>();
  useEffect(() => {
    const events = new EventSource(`/api/runs/${run}/events`);
    events.addEventListener("pulse", ({ data }) => setPulse(JSON.parse(data) as RunPulse));
    return () => events.close();
  }, [run]);
  return pulse;
}

/** A run's view that grows with the run: only new steps are loaded. */
export function useLiveRun(run: string): Loaded<RunView> & { readonly pulse: RunPulse | undefined } {
  const pulse = usePulse(run);
  const known = useRef<RunView | undefined>(undefined);
  if (known.current && known.current.run !== run) known.current = undefined;
  const from = known.current?.perStep.length ?? 0;
  const news = `${pulse?.step ?? ""}${pulse?.state ?? ""}`;
  const [loaded, setLoaded] = useState<Loaded<RunView>>({});
  useEffect(() => {
    const abort = new AbortController();
    load<RunView>(`/api/runs/${run}?from=${from}`, abort.signal).then(
      ({ view, failure }) => {
        if (failure || !view) return setLoaded(failure ? { failure } : {});
        const before = known.current?.perStep.filter(({ step }) => step < from) ?? [];
        known.current = { ...view, perStep: [...before, ...view.perStep] };
        setLoaded({ view: known.current });
      },
      () => {},
    );
    return () => abort.abort();
  }, [run, news]);
  return { ...(loaded.view && loaded.view.run !== run ? {} : loaded), pulse };
}

/** Calls the handler of a pressed key, unless the reader is typing. */
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
