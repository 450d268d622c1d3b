/**
 * @file SkyRL's recorded responses (test/fixtures/tinker-transcript.txt) parse with the client's schemas, and the fake server answers the same
 * requests with the same status and every top-level key that the client reads.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import type * as z from "zod";
import {
  Capabilities,
  Heartbeat,
  ModelCreated,
  ModelInfo,
  ModelUnloaded,
  OptimizerResult,
  PassResult,
  Refusal,
  SampleResult,
  Saved,
  SessionCreated,
  Submitted,
  WeightsLoaded,
} from "../../../engine/tinker/client/messages.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { FakeTinker } from "../../fakes/tinker-server.ts";
import { OPTIONS } from "../tiny.ts";

interface Exchange {
  readonly method: string;
  readonly path: string;
  /** Undefined if the transcript truncates it, as `response` may be. */
  readonly body: Record<string, unknown> | null | undefined;
  readonly status: number;
  readonly response: unknown;
}

const FIXTURE = join(resolve(import.meta.dirname, "../../fixtures"), "tinker-transcript.txt");

function recorded(): Exchange[] {
  const pairs = readFileSync(FIXTURE, "utf8").matchAll(/^>> (\w+) \/api\/v1\/(\S+) (.*)\n<< (\d+) \(\S+\) (.*)$/gm);
  return [...pairs].map(([, method = "", path = "", body = "", status, response = ""]) => ({
    ...{ method, path, status: Number(status) },
    body: body.endsWith("...") ? undefined : JSON.parse(body),
    response: response.endsWith("...") ? undefined : JSON.parse(response),
  }));
}

/** By call, the schema of its immediate response. */
const RESPONSES: Record<string, z.ZodType> = {
  get_server_capabilities: Capabilities,
  create_session: SessionCreated,
  session_heartbeat: Heartbeat,
  create_model: Submitted,
  get_info: ModelInfo,
  unload_model: Submitted,
  forward: Submitted,
  forward_backward: Submitted,
  optim_step: Submitted,
  save_weights: Submitted,
  save_weights_for_sampler: Submitted,
  load_weights: Submitted,
  asample: Submitted,
};
/** By call, the schema of its future's result. */
const RESULTS: Record<string, z.ZodType> = {
  create_model: ModelCreated,
  unload_model: ModelUnloaded,
  forward: PassResult,
  forward_backward: PassResult,
  optim_step: OptimizerResult,
  save_weights: Saved,
  save_weights_for_sampler: Saved,
  load_weights: WeightsLoaded,
  asample: SampleResult,
};

/** Each exchange with the call that it is about: for a retrieved future, the one that submitted it. */
function withSubjects() {
  const submitted = new Map<string, string>();
  return recorded().map((exchange) => {
    const submitter =
      exchange.path === "retrieve_future" ? submitted.get(String(exchange.body?.["request_id"])) : undefined;
    const { request_id } = (exchange.response ?? {}) as { request_id?: string };
    if (request_id !== undefined && exchange.path !== "retrieve_future") submitted.set(request_id, exchange.path);
    return { ...exchange, subject: submitter ?? exchange.path, isResult: submitter !== undefined };
  });
}

test("the client's schemas parse every untruncated response to a call that the client makes", () => {
  let read = 0;
  for (const { path, status, response, subject, isResult } of withSubjects()) {
    if (response === undefined || response === null) continue;
    // Weights saved for a sampling session, which the client does not use, have no path.
    if (isResult && subject === "save_weights_for_sampler" && (response as { path?: unknown }).path === null) continue;
    const schema = status >= 400 ? Refusal : (isResult ? RESULTS : RESPONSES)[subject];
    if (!schema) continue;
    expect(schema.safeParse(response).error, `${path} ${JSON.stringify(response).slice(0, 100)}`).toBeUndefined();
    read++;
  }
  expect(read).toBeGreaterThan(50);
});

/** Leaves out truncated requests, conflicts, and features that the client does not use. */
const isReplayed = ({ path, body, status }: Exchange) =>
  body !== undefined &&
  (path in RESPONSES || path === "retrieve_future") &&
  status !== 409 &&
  !Object.keys(body ?? {}).some((key) => key.startsWith("sampling_session"));

test("the fake server answers the recorded requests with the same status and every top-level key that the client reads", async () => {
  const server = new FakeTinker({ engine: bigramEngine, files: bigramFiles(512), options: OPTIONS });
  const ids = new Map<string, string>();
  const requests = new Map([["99999", "99999"]]);
  const renamed = (text: string) => [...ids].reduce((all, [theirs, ours]) => all.replaceAll(theirs, ours), text);
  let compared = 0;
  // From its last heartbeat on, the transcript has another session, whose server was killed and restarted.
  const end = recorded().findLastIndex(({ path }) => path === "session_heartbeat");
  for (const exchange of recorded().slice(0, end)) {
    if (!isReplayed(exchange)) continue;
    const { method, path, body, status, response } = exchange;
    const request_id = requests.get(String(body?.["request_id"]));
    if (path === "retrieve_future" && request_id === undefined) continue;
    const sent = body && renamed(JSON.stringify({ ...body, ...(request_id && { request_id }) }));
    const reply = await server.fetch(`http://fake/api/v1/${path}`, { method, ...(sent && { body: sent }) });
    const ours = (await reply.json()) as Record<string, string>;
    expect(reply.status, `${path} ${sent} -> ${JSON.stringify(ours)}`).toBe(status);
    const theirs = (response ?? {}) as Record<string, string>;
    expect(Object.keys(theirs).filter((key) => !IGNORED.has(key) && !(key in ours))).toEqual([]);
    for (const key of ["session_id", "model_id"]) if (theirs[key]) ids.set(theirs[key], ours[key] ?? "");
    if (theirs["request_id"]) requests.set(theirs["request_id"], ours["request_id"] ?? "");
    compared++;
  }
  expect(compared).toBeGreaterThan(25);
});

/** Keys of recorded responses that the client does not read. */
const IGNORED = new Set(["topk_prompt_logprobs"]);
