/**
 * @file Rollouts as OTLP traces, decoded with OTLP's own schema: the tree, the scores, the times, ids that stay the same when a rollout is
 * sent again, content only with `trackContent`. The environment variables of the receiver, and the errors of a send.
 */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import protobuf from "protobufjs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkTrackers, openTrackers } from "../../../adapters/trackers/open.ts";
import { openOtlp } from "../../../adapters/trackers/otlp.ts";
import { readTracedRollouts } from "../../../cli/local/traced-rollouts.ts";
import { config, storeOfFinishedRun } from "../../cli/records.ts";
import { serveHttp } from "../../fakes/http-server.ts";

const never = new AbortController().signal;
const report = () => {};
const line = { step: 1, time: 1_700_000_010_000, source: "step", metrics: { "time/step": 10 } };

/** trace_service.proto and what it imports, as far as spans need it. */
const Request = protobuf
  .parse(`
  syntax = "proto3";
  message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; string schema_url = 3; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { InstrumentationScope scope = 1; repeated Span spans = 2; }
  message InstrumentationScope { string name = 1; string version = 2; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
    fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9;
    uint32 dropped_attributes_count = 10; repeated Event events = 11;
  }
  message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`)
  .root.lookupType("ExportTraceServiceRequest");

interface Decoded {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: number;
  readonly endTimeUnixNano: number;
  readonly attributes: readonly { key: string; value: Record<string, unknown> }[];
  readonly events?: readonly { name: string; attributes: readonly { key: string; value: Record<string, unknown> }[] }[];
}

let requests: Decoded[][] = [];
let received: Record<string, string>[] = [];
let status = 200;
let server: ReturnType<typeof serve>;
let url = "";
beforeEach(async () => {
  [requests, received, status] = [[], [], 200];
  const app = new Hono();
  app.post("/v1/traces", async (context) => {
    if (status !== 200) return context.text("busy", 503);
    received.push(context.req.header());
    expect(context.req.header("content-type")).toBe("application/x-protobuf");
    const body = Request.decode(new Uint8Array(await context.req.arrayBuffer()));
    const { resourceSpans } = Request.toObject(body, { longs: Number, bytes: String });
    requests.push(resourceSpans[0].scopeSpans[0].spans);
    return context.body(null);
  });
  url = await new Promise((resolve) => {
    server = serve(
      { fetch: app.fetch, overrideGlobalObjects: false, hostname: "127.0.0.1", port: 0 },
      ({ port }: AddressInfo) => resolve(`http://127.0.0.1:${port}/v1/traces`),
    );
  });
});
afterEach(() => server.close());

async function send(trackContent: boolean): Promise<Decoded[]> {
  const store = await storeOfFinishedRun();
  const rollouts = (step: number) => readTracedRollouts(store, { ...config, trackContent }, step);
  await openOtlp({ url, headers: {}, run: "tiny", identity: "tiny@1", rollouts, report }).send([line], never);
  return requests.at(-1) ?? [];
}

const attributesOf = ({ attributes }: Pick<Decoded, "attributes">) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

test("a rollout is a tree of agents, turns and tools, with its scores", async () => {
  const spans = await send(false);
  const roots = spans.filter(({ parentSpanId }) => !parentSpanId);
  expect(roots.length).toBeGreaterThan(0);
  expect(new Set(roots.map(({ name }) => name))).toEqual(new Set(["invoke_agent main"]));
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(roots.length);
  const ids = new Set(spans.map(({ spanId }) => spanId));
  for (const { parentSpanId } of spans) if (parentSpanId) expect(ids.has(parentSpanId)).toBe(true);
  const [first] = roots;
  expect(first && attributesOf(first)).toMatchObject({ "gen_ai.operation.name": "invoke_agent", "mgrpo.advantage": 1 });
  expect(first?.events?.map(({ attributes }) => Object.values(attributesOf({ attributes })))).toEqual([
    ["correct", 1],
    ["reward", 1],
  ]);
  const names = spans.map(({ name }) => name.split(" ")[0]);
  expect(new Set(names)).toEqual(new Set(["invoke_agent", "chat", "execute_tool"]));
  expect(spans.some(({ name, parentSpanId }) => name === "invoke_agent searcher" && parentSpanId)).toBe(true);
});

test("a score or an advantage of 1 is a double, as every other one is; counts and versions are integers", async () => {
  const typesOf = ({ attributes }: Pick<Decoded, "attributes">) =>
    Object.fromEntries(attributes.map(({ key, value }) => [key, Object.keys(value)[0]]));
  const root = (await send(false)).find(({ parentSpanId }) => !parentSpanId);
  expect(root && typesOf(root)).toMatchObject({
    "gen_ai.usage.output_tokens": "intValue",
    "mgrpo.policy.version": "intValue",
    "mgrpo.advantage": "doubleValue",
  });
  const scores = root?.events?.map((event) => typesOf(event)["gen_ai.evaluation.score.value"]);
  expect(scores).toEqual(["doubleValue", "doubleValue"]);
});

test("spans lie within the step's time, each inside its parent", async () => {
  const spans = await send(false);
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  for (const span of spans) {
    expect(span.startTimeUnixNano).toBeGreaterThanOrEqual(1_700_000_000_000 * 1e6);
    expect(span.endTimeUnixNano).toBeLessThanOrEqual(1_700_000_010_000 * 1e6);
    expect(span.endTimeUnixNano).toBeGreaterThan(span.startTimeUnixNano);
    const parent = byId.get(span.parentSpanId ?? "");
    if (!parent) continue;
    expect(span.startTimeUnixNano).toBeGreaterThanOrEqual(parent.startTimeUnixNano);
    expect(span.endTimeUnixNano).toBeLessThanOrEqual(parent.endTimeUnixNano);
  }
});

test("spans shorter than a millisecond end after they start", async () => {
  const rollouts = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  const brief = { ...line, metrics: { "time/step": 0.0005 } };
  const tracker = openOtlp({ url, headers: {}, run: "tiny", identity: "tiny", rollouts: async () => rollouts, report });
  await tracker.send([brief], never);
  const spans = requests.at(-1) ?? [];
  expect(spans.length).toBeGreaterThan(0);
  for (const span of spans) expect(span.endTimeUnixNano).toBeGreaterThan(span.startTimeUnixNano);
});

test("the line of a step sends its rollouts, and the line of an evaluation sends none: line n is of step n - 1", async () => {
  const asked: number[] = [];
  const rollouts = async (step: number) => {
    asked.push(step);
    return readTracedRollouts(await storeOfFinishedRun(), config, 0);
  };
  const lines = [line, { ...line, source: "eval/held-out" }, { ...line, step: 2 }];
  await openOtlp({ url, headers: {}, run: "tiny", identity: "tiny", rollouts, report }).send(lines, never);
  expect([asked, requests.length]).toEqual([[0, 1], 2]);
});

test("a rollout sent twice has the same ids", async () => {
  const ids = (spans: readonly Decoded[]) => spans.map(({ traceId, spanId }) => `${traceId}/${spanId}`).sort();
  expect(ids(await send(false))).toEqual(ids(await send(false)));
});

test("content is sent only if trackContent is set", async () => {
  const without = JSON.stringify(await send(false));
  const withContent = JSON.stringify(await send(true));
  for (const text of ["What is the capital", "Lisbon"]) {
    expect(without).not.toContain(text);
    expect(withContent).toContain(text);
  }
});

test("an outage of the receiver is retryable; a missing address, or trackContent without otlp, is refused before the run", async () => {
  status = 503;
  await expect(send(false)).rejects.toMatchObject({ code: "tracker-unavailable", retryable: true });
  const check = (environment: Record<string, string>, trackContent = false) =>
    checkTrackers({ track: ["otlp"], trackContent }, environment);
  expect(() => check({})).toThrow(/OTEL_EXPORTER_OTLP_ENDPOINT, which is empty or not set/);
  expect(() => check({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" }, true)).not.toThrow();
  expect(() => checkTrackers({ track: [], trackContent: true }, {})).toThrow(/trackContent: only otlp/);
});

test.each<[Record<string, string>, RegExp]>([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318" }, /OTEL_EXPORTER_OTLP_ENDPOINT, which is not an http or https/],
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "localhost" },
    /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, which is not an http or https address/,
  ],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://ada:100%@localhost" }, /OTLP_ENDPOINT, which has a user or password .*%25/],
  [
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
      OTEL_EXPORTER_OTLP_HEADERS: "a=1,authorization=Basic 100%",
    },
    /header 2 of OTEL_EXPORTER_OTLP_HEADERS is not name=value, with the value percent-encoded: .* write % as %25$/,
  ],
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "authorization Basic" },
    /header 1 of OTEL_EXPORTER_OTLP_TRACES_HEADERS/,
  ],
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_EXPORTER_OTLP_HEADERS: "a=1,my key=Basic" },
    /header 2 of OTEL_EXPORTER_OTLP_HEADERS has a character that HTTP does not allow in its name or its value/,
  ],
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_EXPORTER_OTLP_HEADERS: "x-key=Basic%20a%0Ab" },
    /header 1 of OTEL_EXPORTER_OTLP_HEADERS has a character that HTTP does not allow in its name or its value/,
  ],
])("%j is refused before the run; the message names the variable, but no header's value", (environment, message) => {
  let error: unknown;
  try {
    checkTrackers({ track: ["otlp"], trackContent: false }, environment);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({ code: "config-invalid", message: expect.stringMatching(message) });
  expect(error).toMatchObject({ message: expect.not.stringContaining("Basic") });
});

test("a user and password in the address become the Authorization header, unless a variable sets that header, in upper or lower case", async () => {
  const rollouts = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  for (const OTEL_EXPORTER_OTLP_HEADERS of ["", "Authorization=Bearer%20key"]) {
    const [tracker] = openTrackers(
      { ...config, track: ["otlp"] },
      "unused",
      0,
      async () => rollouts,
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url.replace("//", "//ada:word@"), OTEL_EXPORTER_OTLP_HEADERS },
      report,
    );
    await tracker?.send([line], never);
  }
  const basic = `Basic ${Buffer.from("ada:word").toString("base64")}`;
  expect(received.map((headers) => headers["authorization"])).toEqual([basic, "Bearer key"]);
});

test("an empty variable counts as unset; headers are trimmed, and their values percent-decoded", async () => {
  const rollouts = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  const [tracker] = openTrackers(
    { ...config, track: ["otlp"] },
    "unused",
    0,
    async () => rollouts,
    {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "",
      OTEL_EXPORTER_OTLP_ENDPOINT: url.replace("v1/traces", ""),
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "",
      OTEL_EXPORTER_OTLP_HEADERS: "x-team=a%20b, x-key = c=d ,",
    },
    report,
  );
  await tracker?.send([line], never);
  expect(received).toMatchObject([{ "x-team": "a b", "x-key": "c=d" }]);
});

test("a model that is a folder on this machine is traced by the folder's name alone", async () => {
  const main = config.agents["main"] ?? expect.fail("no main agent");
  for (const model of ["/home/somebody/models/planner", "../somebody/planner"]) {
    const at = { ...config, agents: { ...config.agents, main: { ...main, model } } };
    const [traced] = await readTracedRollouts(await storeOfFinishedRun(), at, 0);
    expect(traced?.models["main"]).toBe("planner");
  }
});

test("the note on a rollout's question is read only if trackContent is set", async () => {
  const store = await storeOfFinishedRun();
  const noteOf = ({ id }: { id: string }) => `note on ${id}`;
  const noteIn = async (trackContent: boolean) =>
    (await readTracedRollouts(store, { ...config, trackContent }, 0, noteOf)).map(({ note }) => note);
  expect(await noteIn(true)).toEqual(["note on q1"]);
  expect(await noteIn(false)).toEqual([undefined]);
});

test("a rollout is left out if a conversation of its sub-agents has expired, even while its outcome has not", async () => {
  const store = await storeOfFinishedRun();
  expect(await readTracedRollouts(store, config, 0)).toHaveLength(1);
  await store.objects.delete(store.objects.keys().filter((key) => key.includes("/invocations/")));
  expect(await readTracedRollouts(store, config, 0)).toEqual([]);
});

test("a send that runs out of time says so, and names the command that sends the rest", async () => {
  const rollouts = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  const tracker = openOtlp({ url, headers: {}, run: "tiny", identity: "tiny", rollouts: async () => rollouts, report });
  await expect(tracker.send([line], AbortSignal.abort())).rejects.toThrow(/send everything .*`mgrpo track tiny`/);
});

test("a receiver that breaks off its response: the error names it, and is retryable", async () => {
  const address = await serveHttp((request, response) => {
    request.resume().once("end", () => {
      response.writeHead(503, { "content-length": 100 });
      response.write("busy", () => response.destroy());
    });
  });
  const rollouts = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  const options = { url: address, headers: {}, run: "tiny", identity: "tiny", rollouts: async () => rollouts, report };
  await expect(openOtlp(options).send([line], never)).rejects.toMatchObject({
    code: "tracker-unavailable",
    retryable: true,
    message: `the OTLP receiver at ${address} does not answer`,
  });
});
