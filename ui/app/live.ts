/**
 * @file What the server tells pages while they are open, by server-sent events. One stream per address, however many parts of a page listen.
 * A page that nobody sees closes its streams: browsers allow six connections to a server, and more tabs would wait for each other.
 */
import { useEffect, useState } from "preact/hooks";
import type { Failure } from "../views.ts";
import { NO_SERVER, useSource } from "./source.ts";

export interface News<View> {
  /** The newest; undefined until the first. */
  readonly view?: View;
  /** Why there is nothing newer. */
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
  readonly #listeners = new Set<(news: News<unknown>) => void>();
  #events: EventSource | undefined;
  #news: News<unknown> = {};

  constructor(path: string, event: string) {
    this.#path = path;
    this.#event = event;
  }

  add(listener: (news: News<unknown>) => void): void {
    this.#listeners.add(listener);
    listener(this.#news);
    this.sync();
  }

  /** Returns the number of listeners that are left. */
  remove(listener: (news: News<unknown>) => void): number {
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
    const tell = (news: News<unknown>) => {
      this.#news = news;
      for (const listener of this.#listeners) listener(news);
    };
    events.addEventListener(this.#event, ({ data }) => tell({ view: JSON.parse(data) }));
    events.addEventListener("failure", ({ data }) => tell({ ...this.#news, failure: JSON.parse(data) }));
    // The browser connects again by itself, and the server then sends the newest view. It gives up only on a server that refuses.
    events.addEventListener("error", () => {
      tell({ ...this.#news, failure: events.readyState === EventSource.CLOSED ? REFUSED : NO_SERVER });
    });
    return events;
  }
}

const streams = new Map<string, Stream>();
document.addEventListener("visibilitychange", () => {
  for (const stream of streams.values()) stream.sync();
});

/** @param event the name of the stream's events, each a whole view. */
export function useNews<View>(path: string, event: string): News<View> {
  const [news, setNews] = useState<News<View>>({});
  const changes = useSource().about === undefined;
  useEffect(() => {
    if (!changes) return undefined;
    const stream = streams.get(path) ?? new Stream(path, event);
    streams.set(path, stream);
    const listener = (next: News<unknown>) => setNews(next as News<View>);
    stream.add(listener);
    return () => {
      if (stream.remove(listener) === 0) streams.delete(path);
    };
  }, [path, event, changes]);
  return news;
}
