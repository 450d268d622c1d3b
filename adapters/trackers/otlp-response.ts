/** @file What an OTLP receiver answers with status 2xx: opentelemetry-proto's ExportTraceServiceResponse, which may reject a part of the request. */
import protobuf from "protobufjs";

const ExportTraceResponse = protobuf
  .parse(`
  syntax = "proto3";
  message Response { PartialSuccess partial_success = 1; }
  message PartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
`)
  .root.lookupType("Response");

const MAX_REASON_CHARACTERS = 300;

export interface RejectedSpans {
  readonly count: number;
  /** The receiver's reason; often empty. */
  readonly reason: string;
}

/** Undefined: the receiver reports no rejected spans. */
export function rejectedSpans(contentType: string, body: Uint8Array): RejectedSpans | undefined {
  // By the specification, the answer to protobuf is protobuf. Some receivers, such as MLflow, answer with text of their own.
  if (!/^application\/x-protobuf\b/i.test(contentType)) return undefined;
  const { rejectedSpans: count, errorMessage: reason } = partialSuccess(body);
  return count > 0 ? { count, reason: reason.replace(/\s+/g, " ").trim().slice(0, MAX_REASON_CHARACTERS) } : undefined;
}

interface PartialSuccess {
  readonly rejectedSpans: number;
  readonly errorMessage: string;
}
const COMPLETE: PartialSuccess = { rejectedSpans: 0, errorMessage: "" };

/** What is not protobuf despite its type, such as `{}`, rejects nothing: a failure would send the same spans again and again. */
function partialSuccess(body: Uint8Array): PartialSuccess {
  try {
    const options = { longs: Number, defaults: true };
    return ExportTraceResponse.toObject(ExportTraceResponse.decode(body), options)["partialSuccess"] ?? COMPLETE;
  } catch {
    return COMPLETE;
  }
}
