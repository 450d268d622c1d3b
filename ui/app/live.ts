/**
 * @file What the server sends to open pages, as server-sent events. One stream per path, however many parts of a page listen.
 * A hidden page closes its streams: browsers allow six connections to an HTTP/1.1 server, and further tabs would wait.
 */
import { useEffect, useState } from "preact/hooks";
import type { Failure } from "../views.ts";
import { NO_SERVER, useSource } from "./source.ts";

export interface StreamState<View> {
  /** The newest view; absent before the first. */
  readonly view?: View;
  /** Why there is no newer view; absent while the stream works. */
  readonly failure?: Failure;
}

/** A restarted server may have another key. */
const REFUSED: Failure = {
  code: "refused",
  message: "the server refuses to send this page updates: reload the page to see why",
};

export class Stream {
  readonly #path: string;
  readonly #event: string;
  readonly #listeners = new Set<(state: StreamState<unknown>) => void>();
  #events: EventSource | undefined;
  #state: StreamState<unknown> = {};

  constructor(path: string, event: string) {
    this.#path = path;
    this.#event = event;
  }

  add(listener: (state: StreamState<unknown>) => void): void {
    this.#listeners.add(listener);
    listener(this.#state);
    this.sync();
  }

  /** Returns the number of listeners that are left. */
  remove(listener: (state: StreamState<unknown>) => void): number {
    this.#listeners.delete(listener);
    this.sync();
    return this.#listeners.size;
  }

  /** Opens or closes the stream, as its listeners and the page's visibility require. */
  sync(): void {
    const isWanted = this.#listeners.size > 0 && document.visibilityState === "visible";
    if (isWanted && !this.#events) this.#events = this.#open();
    if (isWanted) return;
    this.#events?.close();
    this.#events = undefined;
  }

  #open(): EventSource {
    const events = new EventSource(this.#path);
    const notify = (state: StreamState<unknown>) => {
      this.#state = state;
      for (const listener of this.#listeners) listener(state);
    };
    events.addEventListener(this.#event, ({ data }) => notify({ view: JSON.parse(data) }));
    events.addEventListener("failure", ({ data }) => notify({ ...this.#state, failure: JSON.parse(data) }));
    // The browser reconnects by itself, and the server then sends the newest view. It gives up only if the server refuses.
    events.addEventListener("error", () => {
      notify({ ...this.#state, failure: events.readyState === EventSource.CLOSED ? REFUSED : NO_SERVER });
    });
    return events;
  }
}

const streams = new Map<string, Stream>();
document.addEventListener("visibilitychange", () => {
  for (const stream of streams.values()) stream.sync();
});

/** @param event the name of the events that carry a whole view: always the same for a path, since all listeners of a path share its stream. */
export function useStream<View>(path: string, event: string): StreamState<View> {
  const [state, setState] = useState<StreamState<View>>({});
  const isLive = useSource().about === undefined;
  useEffect(() => {
    if (!isLive) return undefined;
    const stream = streams.get(path) ?? new Stream(path, event);
    streams.set(path, stream);
    const listener = (next: StreamState<unknown>) => setState(next as StreamState<View>);
    stream.add(listener);
    return () => {
      if (stream.remove(listener) === 0) streams.delete(path);
    };
  }, [path, event, isLive]);
  return state;
}
