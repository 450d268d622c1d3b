/**
 * @file SkyRL's recorded answers (test/fixtures/tinker-transcript.txt) parse with the client's schemas, and the fake server answers the same
 * requests with the same status and every key that the client reads.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import type * as z from "zod";
import {
  Capabilities,
  Heartbeat,
  Loaded,
  ModelCreated,
  ModelInfo,
  ModelSubmitted,
  ModelUnloaded,
  OptimizerResult,
  PassResult,
  Refusal,
  SampleResult,
  Saved,
  SessionCreated,
  Submitted,
} from "../../../engine/tinker/client/messages.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { FakeTinker } from "../../fakes/tinker-server.ts";
import { OPTIONS } from "../tiny.ts";

interface Exchange {
  readonly method: string;
  readonly path: string;
  /** Undefined where the record cuts it. */
  readonly body: Record<string, unknown> | null | undefined;
  readonly status: number;
  readonly answer: unknown;
}

const FIXTURE = join(resolve(import.meta.dirname, "../../fixtures"), "tinker-transcript.txt");

function recorded(): Exchange[] {
  const pairs = readFileSync(FIXTURE, "utf8").matchAll(/^>> (\w+) \/api\/v1\/(\S+) (.*)\n<< (\d+) \(\S+\) (.*)$/gm);
  return [...pairs].map(([, method = "", path = "", body = "", status, answer = ""]) => ({
    ...{ method, path, status: Number(status) },
    body: body.endsWith("...") ? undefined : JSON.parse(body),
    answer: answer.endsWith("...") ? undefined : JSON.parse(answer),
  }));
}

/** What the client reads of an answer. Results of futures are told by the call that they are of. */
const ANSWERS: Record<string, z.ZodType> = {
  get_server_capabilities: Capabilities,
  create_session: SessionCreated,
  session_heartbeat: Heartbeat,
  create_model: ModelSubmitted,
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
const RESULTS: Record<string, z.ZodType> = {
  create_model: ModelCreated,
  unload_model: ModelUnloaded,
  forward: PassResult,
  forward_backward: PassResult,
  optim_step: OptimizerResult,
  save_weights: Saved,
  load_weights: Loaded,
  asample: SampleResult,
};

/** The exchanges with the call that each is about: for a future, the one that submitted it. */
function withSubjects() {
  const submitted = new Map<string, string>();
  return recorded().map((exchange) => {
    const asked =
      exchange.path === "retrieve_future" ? submitted.get(String(exchange.body?.["request_id"])) : undefined;
    const { request_id } = (exchange.answer ?? {}) as { request_id?: string };
    // A second server, whose numbers began again, ends the record.
    if (request_id !== undefined && exchange.path !== "retrieve_future") submitted.set(request_id, exchange.path);
    return { ...exchange, subject: asked ?? exchange.path, isResult: asked !== undefined };
  });
}

test("the client reads every recorded answer", () => {
  let read = 0;
  for (const { path, status, answer, subject, isResult } of withSubjects()) {
    if (answer === undefined || answer === null) continue;
    const schema = status >= 400 ? Refusal : (isResult ? RESULTS : ANSWERS)[subject];
    if (!schema) continue;
    expect(schema.safeParse(answer).error, `${path} ${JSON.stringify(answer).slice(0, 100)}`).toBeUndefined();
    read++;
  }
  expect(read).toBeGreaterThan(50);
});

/** Requests whose premises the record cuts, and features that nobody here asks for. */
const isReplayed = ({ path, body, status }: Exchange) =>
  body !== undefined &&
  (path in ANSWERS || path === "retrieve_future") &&
  status !== 409 &&
  !Object.keys(body ?? {}).some((key) => key.startsWith("sampling_session"));
test("the fake server gives the same answers", async () => {
  const server = new FakeTinker({ engine: bigramEngine, files: bigramFiles(512), options: OPTIONS });
  const ids = new Map<string, string>();
  const requests = new Map([["99999", "99999"]]);
  const renamed = (text: string) => [...ids].reduce((all, [theirs, ours]) => all.replaceAll(theirs, ours), text);
  let compared = 0;
  // Then that server was killed, and another session begins.
  const end = recorded().findLastIndex(({ path }) => path === "session_heartbeat");
  for (const exchange of recorded().slice(0, end)) {
    if (!isReplayed(exchange)) continue;
    const { method, path, body, status, answer } = exchange;
    const request_id = requests.get(String(body?.["request_id"]));
    if (path === "retrieve_future" && request_id === undefined) continue;
    const asked = body && renamed(JSON.stringify({ ...body, ...(request_id && { request_id }) }));
    const response = await server.fetch(`http://fake/api/v1/${path}`, { method, ...(asked && { body: asked }) });
    const told = (await response.json()) as Record<string, string>;
    expect(response.status, `${path} ${asked} -> ${JSON.stringify(told)}`).toBe(status);
    const theirs = (answer ?? {}) as Record<string, string>;
    expect(Object.keys(theirs).filter((key) => !IGNORED.has(key) && !(key in told))).toEqual([]);
    for (const key of ["session_id", "model_id"]) if (theirs[key]) ids.set(theirs[key], told[key] ?? "");
    if (theirs["request_id"]) requests.set(theirs["request_id"], told["request_id"] ?? "");
    compared++;
  }
  expect(compared).toBeGreaterThan(25);
});

/** What the record has and the client does not look at. */
const IGNORED = new Set(["topk_prompt_logprobs"]);
