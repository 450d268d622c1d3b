/**
 * @file Rollouts as OpenTelemetry traces, by OTLP over HTTP with protobuf (opentelemetry-proto 1.x), the default of its exporters.
 * Trace and span ids are hashes of a rollout's address, so a rollout that is sent twice has the same ids.
 */

import { createHash } from "node:crypto";
import { withAnySignal } from "../../core/any-signal.ts";
import { MgrpoError } from "../../core/errors.ts";
import { type Span, type SpanAttributes, spansOf, type TracedRollout } from "../../core/monitoring/spans.ts";
import type { Tracker } from "../../core/tracker.ts";
import { wellFormed } from "../../core/well-formed.ts";
import { ExportTraceRequest } from "./otlp-request.ts";

export interface OtlpOptions {
  /** Of the traces: `…/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly run: string;
  /** Tells runs with the same name apart. */
  readonly identity: string;
  /** The finished rollouts of a closed step. */
  readonly rollouts: (step: number) => Promise<readonly TracedRollout[]>;
  /** Receives one line per step with rollouts that are left out. */
  readonly report: (line: string) => void;
}

/** Rollouts in one request, at most. */
const BATCH = 32;
/** The HTTP status of a request that is too large for the receiver. */
const TOO_LARGE = 413;
const REQUEST_SECONDS = 20;

/** Attributes that are integers. All other numbers are doubles. */
const INTEGERS = new Set(["gen_ai.usage.output_tokens", "mgrpo.policy.version"]);

/** SPAN_KIND_INTERNAL. */
const INTERNAL = 1;

export function openOtlp(options: OtlpOptions): Tracker {
  return {
    name: "otlp",
    // A line of a step stands for all of its rollouts.
    linesAtOnce: 1,
    async send(lines, signal) {
      for (const { step, time, source, metrics } of lines) {
        if (source !== "step") continue;
        const rollouts = await options.rollouts(step - 1);
        const start = time - 1000 * (metrics["time/step"] ?? 0);
        let left = 0;
        for (let i = 0; i < rollouts.length; i += BATCH) {
          const batch = rollouts.slice(i, i + BATCH);
          const traces = batch.map((one) => spanMessages(options.identity, one, start, time));
          left += await post(options, traces, signal);
        }
        if (left > 0) options.report(leftOut(options.url, left, step));
      }
    },
    async finish() {},
  };
}

const leftOut = (url: string, count: number, step: number): string =>
  `step ${step}: the OTLP receiver at ${url} answered ${TOO_LARGE}: ${count} of the step's rollouts ${count === 1 ? "is" : "are"} too large even alone and left out; raise the receiver's limit for requests`;

/** The messages of a rollout's spans. `start` and `end`: of its step, in ms. */
function spanMessages(identity: string, traced: TracedRollout, start: number, end: number): object[] {
  const { step, group, rollout } = traced.outcome.address;
  const address = `${identity}/${step}/${group}/${rollout}`;
  const { spans, seconds } = spansOf(traced);
  const milliseconds = (at: number) =>
    seconds === undefined ? start + at * (end - start) : end + 1000 * (at - seconds);
  // To the microsecond: a double cannot hold the time since 1970 to the nanosecond.
  const nanoseconds = (at: number) => Math.round(1000 * milliseconds(at)) * 1000;
  return spans.map(({ id, parent, name, attributes, events, ...span }: Span) => ({
    traceId: hash(address, 16),
    spanId: hash(`${address}#${id}`, 8),
    ...(parent !== undefined && { parentSpanId: hash(`${address}#${parent}`, 8) }),
    name: wellFormed(name),
    kind: INTERNAL,
    startTimeUnixNano: nanoseconds(span.start),
    endTimeUnixNano: nanoseconds(span.end),
    attributes: keyValues({ ...attributes, ...(seconds !== undefined && { "mgrpo.seconds": span.end - span.start }) }),
    events: events.map((event) => ({
      timeUnixNano: nanoseconds(span.end),
      name: event.name,
      attributes: keyValues(event.attributes),
    })),
  }));
}

const hash = (text: string, bytes: number): Buffer => createHash("sha256").update(text).digest().subarray(0, bytes);

function keyValues(attributes: SpanAttributes): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: anyValue(key, value) }));
}

/** An attribute has one type in all spans, as receivers index it by its type: a reward of 1 is a double too. */
function anyValue(key: string, value: string | number | boolean): object {
  // Receivers refuse a whole request for one string that is not UTF-8.
  if (typeof value === "string") return { stringValue: wellFormed(value) };
  if (typeof value === "boolean") return { boolValue: value };
  return INTEGERS.has(key) ? { intValue: value } : { doubleValue: value };
}

/** Halves a batch that is too large. Returns how many traces are too large even alone. */
async function post(options: OtlpOptions, traces: readonly object[][], signal: AbortSignal): Promise<number> {
  const { url, run } = options;
  const resource = { attributes: keyValues({ "service.name": "mgrpo", "mgrpo.run": run }) };
  const scopeSpans = [{ scope: { name: "mgrpo" }, spans: traces.flat() }];
  const traceRequest = ExportTraceRequest.create({ resourceSpans: [{ resource, scopeSpans }] });
  const body = ExportTraceRequest.encode(traceRequest).finish();
  const { status, text } = await request(options, body, signal);
  if (status >= 200 && status < 300) return 0;
  if (status === TOO_LARGE) {
    if (traces.length === 1) return 1;
    const half = Math.ceil(traces.length / 2);
    const left = await post(options, traces.slice(0, half), signal);
    return left + (await post(options, traces.slice(half), signal));
  }
  const retryable = [429, 502, 503, 504].includes(status);
  const message = `the OTLP receiver at ${url} answered ${status}: ${text.slice(0, 300)}`;
  throw new MgrpoError("tracker-unavailable", message, { retryable });
}

interface OtlpResponse {
  readonly status: number;
  readonly text: string;
}

async function request(
  { url, headers, run }: OtlpOptions,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<OtlpResponse> {
  try {
    return await withAnySignal([signal, AbortSignal.timeout(REQUEST_SECONDS * 1000)], async (either) => {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/x-protobuf" },
        body: Buffer.from(body),
        signal: either,
      });
      return { status: response.status, text: await response.text() };
    });
  } catch (cause) {
    const why = signal.aborted
      ? `there was no time to send everything to the OTLP receiver at ${url}: \`mgrpo track ${run}\` sends the rest`
      : `the OTLP receiver at ${url} does not answer`;
    throw new MgrpoError("tracker-unavailable", why, { retryable: true, cause });
  }
}
