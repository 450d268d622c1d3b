/**
 * @file Rollouts as OpenTelemetry traces, sent by OTLP over HTTP with protobuf (opentelemetry-proto 1.x), the default of OpenTelemetry's exporters.
 * Trace and span ids are hashes of a rollout's address, so a rollout that is sent twice has the same ids.
 */

import { createHash } from "node:crypto";
import { MgrpoError } from "../../core/errors.ts";
import { type Span, type SpanAttributes, spansOf, type TracedRollout } from "../../core/monitoring/spans.ts";
import { redactor } from "../../core/redact.ts";
import type { Tracker } from "../../core/tracker.ts";
import { toWellFormed } from "../../core/well-formed.ts";
import { ExportTraceRequest } from "./otlp-request.ts";
import { type RejectedSpans, rejectedSpans } from "./otlp-response.ts";
import { requestTracker, type TrackerResponse } from "./request.ts";

export interface OtlpOptions {
  /** Of the traces: `…/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly run: string;
  /** Tells runs with the same name apart. */
  readonly identity: string;
  /** The finished rollouts of a closed step. */
  readonly rollouts: (step: number) => Promise<readonly TracedRollout[]>;
  /** Receives up to two lines per step: on rollouts that are left out, and on spans that the receiver rejects. */
  readonly report: (line: string) => void;
}

/** Rollouts in one request, at most. */
const BATCH = 32;
/** Bytes in one request, at most, unless it has one rollout: OpenTelemetry's collector accepts 20 MiB by default. */
const BATCH_BYTES = 16 * 2 ** 20;

/** Attributes that are integers. All other numbers are doubles. */
const INTEGERS = new Set(["gen_ai.usage.output_tokens", "mgrpo.policy.version"]);

/** SPAN_KIND_INTERNAL. */
const INTERNAL = 1;

export function openOtlp(options: OtlpOptions): Tracker {
  return {
    name: "otlp",
    destination: options.url,
    // A line of a step stands for all of its rollouts.
    linesAtOnce: 1,
    async send(lines, signal) {
      for (const { step, time, source, metrics } of lines) {
        if (source !== "step") continue;
        const rollouts = await options.rollouts(step - 1);
        const start = time - 1000 * (metrics["time/step"] ?? 0);
        const leftOut: LeftOut = { tooLarge: 0, rejected: 0, reason: "" };
        for (let i = 0; i < rollouts.length; i += BATCH) {
          const batch = rollouts.slice(i, i + BATCH);
          const traces = batch.map((one) => spanMessages(options.identity, one, start, time));
          await post(options, traces, leftOut, signal);
        }
        for (const fault of faultsOf(leftOut)) options.report(`step ${step}: ${nameOf(options)} ${fault}`);
      }
    },
    async finish() {},
  };
}

/** For messages: without the query, which may hold a key. */
const addressOf = ({ url }: OtlpOptions): string => url.replace(/\?.*/, "");
const nameOf = (options: OtlpOptions): string => `the OTLP receiver at ${addressOf(options)}`;

/** What the receiver did not take of a step. */
interface LeftOut {
  /** Rollouts that are too large even alone. */
  tooLarge: number;
  /** Spans. */
  rejected: number;
  /** Why it rejected the last of them. */
  reason: string;
}

function faultsOf({ tooLarge, rejected, reason }: LeftOut): string[] {
  const [are, were] = tooLarge === 1 ? ["is", "was"] : ["are", "were"];
  const large = `refuses large requests: ${tooLarge} of the step's rollouts ${are} too large even alone, and ${were} left out; raise the receiver's request size limit`;
  const lost = `rejected ${rejected} of the step's spans (${reason || "it gives no reason"})`;
  return [...(tooLarge > 0 ? [large] : []), ...(rejected > 0 ? [lost] : [])];
}

/** A rollout's spans as protobuf messages. `start` and `end`: of its step, in ms. */
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
    name: toWellFormed(name),
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
  if (typeof value === "string") return { stringValue: toWellFormed(value) };
  if (typeof value === "boolean") return { boolValue: value };
  return INTEGERS.has(key) ? { intValue: value } : { doubleValue: value };
}

/** Sends a batch, in halves if it is too large for the receiver or for one request. Adds to `leftOut` what the receiver does not take. */
async function post(
  options: OtlpOptions,
  traces: readonly object[][],
  leftOut: LeftOut,
  signal: AbortSignal,
): Promise<void> {
  const { run, url } = options;
  const headers = { ...options.headers, "content-type": "application/x-protobuf" };
  const resource = { attributes: keyValues({ "service.name": "mgrpo", "mgrpo.run": run }) };
  const scopeSpans = [{ scope: { name: "mgrpo" }, spans: traces.flat() }];
  const traceRequest = ExportTraceRequest.create({ resourceSpans: [{ resource, scopeSpans }] });
  const body = ExportTraceRequest.encode(traceRequest).finish();
  const isSent = traces.length === 1 || body.length <= BATCH_BYTES;
  const response = isSent
    ? await requestTracker({ server: nameOf(options), run, url, headers, body }, signal)
    : undefined;
  if (response && !isTooLarge(response)) {
    const rejected = rejectedBy(options, response);
    leftOut.rejected += rejected?.count ?? 0;
    leftOut.reason = rejected?.reason ?? leftOut.reason;
  } else if (traces.length === 1) {
    leftOut.tooLarge += 1;
  } else {
    const half = Math.ceil(traces.length / 2);
    await post(options, traces.slice(0, half), leftOut, signal);
    await post(options, traces.slice(half), leftOut, signal);
  }
}

/** Receivers in Go, such as OpenTelemetry's collector, answer 400 to what is too large. */
const isTooLarge = ({ status, body }: TrackerResponse): boolean =>
  status === 413 || (status === 400 && /request body too large/i.test(new TextDecoder().decode(body)));

/** Throws `tracker-unavailable` unless the receiver accepted the request, at least in part. API keys that the receiver echoes are redacted. */
function rejectedBy(options: OtlpOptions, { status, type, body }: TrackerResponse): RejectedSpans | undefined {
  const redact = redactor(Object.values(options.headers));
  if (status < 200 || status >= 300) {
    const retryable = [429, 502, 503, 504].includes(status);
    const text = redact(new TextDecoder().decode(body)).slice(0, 300);
    throw new MgrpoError("tracker-unavailable", `${nameOf(options)} answered ${status}: ${text}`, { retryable });
  }
  // For example, a proxy's login page.
  if (/^text\/html\b/i.test(type)) {
    const message = `${addressOf(options)} answered with a web page, so it is not an OTLP receiver: check the address and the headers`;
    throw new MgrpoError("tracker-unavailable", message, { retryable: true });
  }
  const rejected = rejectedSpans(type, body);
  return rejected && { ...rejected, reason: redact(rejected.reason) };
}
