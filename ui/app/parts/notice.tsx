/** @file What a page shows instead of a view: that it is loading, or why there is none. */
import type { Loaded } from "../source.ts";
import { Link } from "./link.tsx";

export const Notice = ({ text }: { readonly text: string }) => (
  <main>
    <p class="faint">{text}</p>
    <p>
      <Link hides to="/">
        all runs
      </Link>
    </p>
  </main>
);

/** Undefined if there is a view and no failure. */
export function noticeOf({ view, failure }: Loaded<unknown>) {
  if (failure) return <Notice text={failure.message} />;
  return view === undefined ? <Notice text="Loading …" /> : undefined;
}
