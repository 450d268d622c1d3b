/** @file The source of a page's views: the server, which has the current ones, or the exported page itself (exported-source.ts). */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Failure } from "../views.ts";

export interface Loaded<View> {
  readonly view?: View;
  readonly failure?: Failure;
}

export interface ViewSource {
  /** The view at a path of the API. Rejects only if it is aborted. */
  load<View>(path: string, signal?: AbortSignal): Promise<Loaded<View>>;
  /** The link to a page; undefined: the source has no views for it. */
  href(page: string): string | undefined;
  /** Describes an export, whose views do not change; undefined if the views are live. */
  readonly about: string | undefined;
}

export const NO_SERVER: Failure = {
  code: "no-server",
  message: "the server does not answer: is `mgrpo ui` still running?",
};

/** A bug in the server, or another server at its address. */
const noView = (status: number): Failure => ({
  code: "no-view",
  message: `the server answers HTTP ${status} without a view: restart \`mgrpo ui\`; if that does not help, report a bug`,
});

export const server: ViewSource = {
  async load<View>(path: string, signal?: AbortSignal): Promise<Loaded<View>> {
    try {
      const response = await fetch(path, { ...(signal && { signal }) });
      if (response.status === 401) return { failure: { code: "no-key", message: await response.text() } };
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      if (!isJson) return { failure: noView(response.status) };
      const body = await response.json();
      return response.ok ? { view: body as View } : { failure: body as Failure };
    } catch (error) {
      if (signal?.aborted) throw error;
      return { failure: NO_SERVER };
    }
  },
  href: (page) => page,
  about: undefined,
};

export const SourceContext = createContext<ViewSource>(server);
export const useSource = (): ViewSource => useContext(SourceContext);
