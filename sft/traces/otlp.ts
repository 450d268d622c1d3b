/**
 * @file OTLP JSON, as the OpenTelemetry collector's file exporter writes it: spans, and log records that are events of spans. A child may be
 * written before its parent, so all files are read before anything is looked up. Unknown fields are ignored, as the protocol requires.
 */
import * as z from "zod";
import { parse } from "../../core/contracts/parse.ts";
import { exactJsonIn, exactNumber, type JsonObject, type JsonValue } from "./json.ts";

export interface OtlpSpanEvent {
  readonly name: string;
  /** Its attributes, and the fields of its body. */
  readonly fields: JsonObject;
}

export interface OtlpSpan {
  readonly trace: string;
  readonly parent: string;
  readonly attributes: JsonObject;
  /** The attributes of the process that recorded it. */
  readonly resource: JsonObject;
  readonly events: readonly OtlpSpanEvent[];
  readonly failed: boolean;
  /** File and line. */
  readonly where: string;
}

const AnyValue: z.ZodType<JsonValue> = z.lazy(() =>
  z
    .object({
      stringValue: z.string().optional(),
      boolValue: z.boolean().optional(),
      intValue: z.union([z.string(), z.number()]).optional(),
      doubleValue: z.union([z.string(), z.number()]).optional(),
      bytesValue: z.string().optional(),
      arrayValue: z.object({ values: z.array(AnyValue).default([]) }).optional(),
      kvlistValue: z.object({ values: KeyValues }).optional(),
    })
    .transform((value): JsonValue => {
      // OTLP writes integers as text.
      const number = value.intValue ?? value.doubleValue;
      if (number !== undefined) return exactNumber(String(number));
      const inner = value.arrayValue ?? value.kvlistValue;
      return value.stringValue ?? value.boolValue ?? value.bytesValue ?? inner?.values ?? null;
    }),
);

const KeyValues = z
  .array(z.object({ key: z.string(), value: AnyValue.default(null) }))
  .default([])
  .transform((pairs): JsonObject => Object.fromEntries(pairs.map(({ key, value }) => [key, value])));

/** An attribute without a value counts as absent; one whose value is an empty string does not. */
const Attributes = KeyValues.transform(
  (all): JsonObject => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)),
);

const Resource = z.object({ attributes: Attributes }).default({ attributes: {} });

const WrittenSpan = z.object({
  traceId: z.string().default(""),
  spanId: z.string(),
  parentSpanId: z.string().default(""),
  attributes: Attributes,
  events: z.array(z.object({ name: z.string().default(""), attributes: Attributes })).default([]),
  status: z.object({ code: z.union([z.number(), z.string()]).optional() }).default({}),
});

const LogRecord = z.object({
  traceId: z.string().default(""),
  spanId: z.string().default(""),
  eventName: z.string().default(""),
  attributes: Attributes,
  body: AnyValue.default(null),
});

const OtlpDocument = z.object({
  resourceSpans: z
    .array(
      z.object({
        resource: Resource,
        scopeSpans: z.array(z.object({ spans: z.array(WrittenSpan).default([]) })).default([]),
      }),
    )
    .default([]),
  resourceLogs: z
    .array(
      z.object({
        resource: Resource,
        scopeLogs: z.array(z.object({ logRecords: z.array(LogRecord).default([]) })).default([]),
      }),
    )
    .default([]),
});

const FAILED_STATUSES: readonly unknown[] = [2, "STATUS_CODE_ERROR"];
/** The event that has the attributes of a span, where content is captured in events only. */
const DETAILS_EVENT = "gen_ai.client.inference.operation.details";
const EVALUATION_EVENT = "gen_ai.evaluation.result";

export const isOtlp = (value: JsonValue): boolean =>
  value !== null && typeof value === "object" && ("resourceSpans" in value || "resourceLogs" in value);

/** The spans of all files. */
export class Traces {
  readonly #spans = new Map<string, OtlpSpan>();
  readonly #logged = new Map<string, { events: OtlpSpanEvent[]; trace: string; resource: JsonObject; where: string }>();

  /** @param whereIs the file and line of a span or log record, by the id of its span. */
  add(value: JsonValue, where: string, whereIs: (spanId: string) => string): void {
    const { resourceSpans, resourceLogs } = parse(OtlpDocument, value, where, "demonstrations-invalid");
    for (const { resource, scopeSpans } of resourceSpans)
      for (const { spans } of scopeSpans)
        for (const span of spans) this.#addSpan(span, resource.attributes, whereIs(span.spanId));
    for (const { resource, scopeLogs } of resourceLogs)
      for (const { logRecords } of scopeLogs)
        for (const record of logRecords) this.#addRecord(record, resource.attributes, whereIs(record.spanId));
  }

  /** Every span with its events. Log records whose span is in no file count as a span of their own. */
  spans(): OtlpSpan[] {
    for (const [id, { trace, resource, where }] of this.#logged) {
      if (this.#spans.has(id)) continue;
      this.#spans.set(id, { trace, parent: "", attributes: {}, resource, events: [], failed: false, where });
    }
    for (const [id, span] of this.#spans) {
      const events = [...span.events, ...(this.#logged.get(id)?.events ?? [])];
      const details = events.filter(({ name }) => name === DETAILS_EVENT).map(({ fields }) => fields);
      this.#spans.set(id, { ...span, events, attributes: Object.assign({}, ...details, span.attributes) });
    }
    this.#logged.clear();
    return [...this.#spans.values()];
  }

  /** The span and those that enclose it, innermost first. */
  *lineage(span: OtlpSpan): Generator<OtlpSpan> {
    const seen = new Set<OtlpSpan>();
    for (let at: OtlpSpan | undefined = span; at && !seen.has(at); at = this.#spans.get(`${at.trace}/${at.parent}`)) {
      seen.add(at);
      yield at;
    }
  }

  /** The attribute of a span, or of the nearest span around it that has it. */
  attribute(span: OtlpSpan, name: string): JsonValue | undefined {
    for (const { attributes } of this.lineage(span)) if (attributes[name] !== undefined) return attributes[name];
    return undefined;
  }

  /**
   * The score called `name`: an attribute, or else the result of an evaluation, of the span or of the nearest span around it
   * that has either; else an attribute of the resource.
   */
  score(span: OtlpSpan, name: string): JsonValue | undefined {
    for (const { attributes, events } of this.lineage(span)) {
      const result = events.findLast(({ name: event, fields }) => {
        return event === EVALUATION_EVENT && fields["gen_ai.evaluation.name"] === name;
      });
      const score = attributes[name] ?? result?.fields["gen_ai.evaluation.score.value"];
      if (score !== undefined) return score;
    }
    return span.resource[name];
  }

  #addSpan(span: z.infer<typeof WrittenSpan>, resource: JsonObject, where: string): void {
    const { traceId, spanId, parentSpanId, attributes } = span;
    const events = span.events.map((event) => eventOf(event.name, event.attributes, null));
    const failed = FAILED_STATUSES.includes(span.status.code);
    const read: OtlpSpan = { trace: traceId, parent: parentSpanId, attributes, resource, events, failed, where };
    this.#spans.set(`${traceId}/${spanId}`, read);
  }

  #addRecord(record: z.infer<typeof LogRecord>, resource: JsonObject, where: string): void {
    const { traceId, spanId, eventName, attributes, body } = record;
    const name = eventName || String(attributes["event.name"] ?? "");
    if (!name.startsWith("gen_ai.")) return;
    // Records without a span do not necessarily belong together.
    const id = spanId === "" ? `record ${this.#logged.size}` : `${traceId}/${spanId}`;
    const logged = this.#logged.get(id) ?? { events: [], trace: traceId, resource, where };
    logged.events.push(eventOf(name, attributes, body));
    this.#logged.set(id, logged);
  }
}

/** A body is structured, or JSON in a string. Span events have no body; some carry it in an attribute. */
function eventOf(name: string, attributes: JsonObject, body: JsonValue): OtlpSpanEvent {
  const written = attributes["gen_ai.event.content"] ?? body;
  const fields = typeof written === "string" ? exactJsonIn(written) : written;
  const isObject = fields !== null && typeof fields === "object" && !Array.isArray(fields);
  return { name, fields: isObject ? { ...attributes, ...(fields as JsonObject) } : attributes };
}
