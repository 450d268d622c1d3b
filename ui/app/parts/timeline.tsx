/** @file The timeline of a step: a row per worker, colored while its engine samples or trains. The rest is waiting. */
import type { TimelineView } from "../../timeline-view.ts";
import { useView } from "../load.ts";
import { duration } from "./format.ts";

/** Width of the drawing, in its own units. */
const WIDTH = 1000;
const HEIGHT = 22;
const KINDS = ["sampling", "training"] as const;

type Worker = TimelineView["workers"][number];
type Spans = Worker["sampling"];

interface TimelineProps {
  readonly run: string;
  readonly step: number;
  readonly folded?: true;
}

export function Timeline({ run, step, folded }: TimelineProps) {
  const { view, failure } = useView<TimelineView>(`/api/runs/${run}/steps/${step}/timeline`);
  if (!view) return <p class="faint">{failure?.message ?? "Loading …"}</p>;
  if (view.seconds === 0) return null;
  const { seconds, workers } = view;
  return (
    <details class="plain" open={!folded}>
      <summary>
        <h2>Time in step {step}</h2> <span class="faint">{short(seconds)}</span>
      </summary>
      <p class="legend faint">
        {KINDS.map((kind) => (
          <span key={kind} class={`key ${kind}`}>
            {kind}
          </span>
        ))}
        <span class="key waiting">waiting</span>
      </p>
      <div class="timeline">
        {workers.map((worker) => (
          <Row key={worker.worker} worker={worker} seconds={seconds} />
        ))}
      </div>
    </details>
  );
}

function Row({ worker, seconds }: { readonly worker: Worker; readonly seconds: number }) {
  const { sampling, training } = worker;
  const busy = { sampling: length(sampling), training: length(training) };
  const waiting = Math.max(0, seconds - length(union([...sampling, ...training])));
  const words = `sampling ${short(busy.sampling)}, training ${short(busy.training)}, waiting ${short(waiting)}`;
  return (
    <>
      <span>
        {worker.worker} <span class="faint">{words}</span>
      </span>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${worker.worker}: ${words}`}
      >
        {KINDS.map((kind) =>
          worker[kind].map(([from, to]) => (
            <rect
              key={`${kind} ${from}`}
              class={kind}
              x={(WIDTH * from) / seconds}
              width={Math.max(1, (WIDTH * (to - from)) / seconds)}
              y={kind === "sampling" ? 0 : HEIGHT / 2}
              height={HEIGHT / 2}
            />
          )),
        )}
      </svg>
    </>
  );
}

/** Tenths of a second below a minute: steps of small models take seconds. */
const short = (seconds: number): string => (seconds < 60 ? `${seconds.toFixed(1)} s` : duration(seconds));

const length = (spans: Spans): number => spans.reduce((sum, [from, to]) => sum + to - from, 0);

/** Merges overlapping spans. */
function union(spans: Spans): Spans {
  const joined: Spans = [];
  for (const [from, to] of spans.toSorted(([a], [b]) => a - b)) {
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}
