/** @file The invocation server of a sub-agent: what each HTTP status means, and when an invocation runs. */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { invocationId } from "../../gpu-workers/identity.ts";
import { openInvocationRegistry } from "../../gpu-workers/invocations/registry.ts";
import { invocationApp } from "../../gpu-workers/invocations/server.ts";
import { openCallSigner, openCallVerifier, openReportSigner } from "../../gpu-workers/invocations/signature.ts";
import { cancelable } from "../../gpu-workers/limits.ts";
import { createLog } from "../../gpu-workers/log.ts";

const PREFIX = "0123456789ab";
const TOKEN = "the team's secret";
const log = createLog(() => {});

const request: InvocationRequest = {
  address: { run: "r", phase: "train", step: 3, group: 0, rollout: 1 },
  questionId: "q",
  agent: "searcher",
  version: 3,
  call: 0,
  task: "look up amber",
  sampling: { temperature: 1, topP: 1, topK: 0 },
  closedBook: false,
};
const id = invocationId(request);
const result: InvocationReport = {
  ref: { id, agent: "searcher", key: "runs/r/invocation", sha256: "0".repeat(64) },
  answer: "birch",
};

/** A registry whose conversations end when the test ends them, when they are canceled, or after the time limit. */
function openWorld(invocationSeconds = 600) {
  let settle: { resolve(value: InvocationReport): void; reject(error: unknown): void } = { resolve() {}, reject() {} };
  const state = {
    ...{ open: true, admitted: Promise.resolve(), ready: Promise.resolve(), staleness: 0 },
    loading: undefined as number | undefined,
  };
  const run = vi.fn(
    (_id: string, _request: InvocationRequest, signal: AbortSignal) =>
      new Promise<InvocationReport>((resolve, reject) => {
        settle = { resolve, reject };
        signal.addEventListener("abort", () => reject(new MgrpoError("canceled", "stopped")));
      }),
  );
  const fatal = vi.fn();
  const registry = openInvocationRegistry({
    run,
    async admits() {
      await state.admitted;
      return state.open;
    },
    whenReady: (_request, signal) => cancelable(state.ready, signal),
    whenOpen: () => state.ready,
    isLoadingOther: (version) => state.loading !== undefined && state.loading !== version,
    staleness: state.staleness,
    invocationSeconds,
    onFatal: fatal,
  });
  return {
    registry,
    run,
    state,
    fatal,
    done: (value = result) => settle.resolve(value),
    fail: (e: unknown) => settle.reject(e),
  };
}

let world: ReturnType<typeof openWorld>;
let app: ReturnType<typeof invocationApp>;
beforeEach(() => serveWithin());

/** Opens a new world, with this time limit. */
function serveWithin(invocationSeconds?: number): void {
  world = openWorld(invocationSeconds);
  app = invocationApp("searcher", PREFIX, SIGNATURES, world.registry, log);
}

const clock = { storeTime: async () => Date.now() };
const SIGNATURES = { verify: openCallVerifier(TOKEN, clock), signReport: openReportSigner(TOKEN) };

async function call(
  method: string,
  path: string,
  { body, token = TOKEN, prefer = "", prefix = PREFIX } = {} as {
    body?: unknown;
    token?: string;
    prefer?: string;
    prefix?: string;
  },
) {
  const text = body === undefined ? "" : canonicalJson(body);
  const { headers: signed } = await openCallSigner(token, clock)({ method, path: `/invocations/${path}`, body: text });
  return app.request(`/${prefix}/invocations/${path}`, {
    method,
    headers: { ...signed, ...(prefer && { prefer }), "content-length": String(text.length) },
    ...(body !== undefined && { body: text }),
  });
}

describe("the server", () => {
  test("refuses calls that are not signed with its secret", async () => {
    expect(
      (await app.request(`/${PREFIX}/invocations/${id}`, { headers: { authorization: `Bearer ${TOKEN}` } })).status,
    ).toBe(401);
    for (const token of ["", "wrong", `${TOKEN}x`, TOKEN.slice(0, -1)]) {
      expect((await call("PUT", id, { body: request, token })).status).toBe(401);
      expect((await call("GET", id, { token })).status).toBe(401);
      expect((await call("DELETE", id, { token })).status).toBe(401);
    }
    expect(world.run).not.toHaveBeenCalled();
  });

  test("answers 404 to calls for a worker that previously had its address", async () => {
    for (const method of ["PUT", "GET", "DELETE"]) {
      const body = method === "PUT" ? request : undefined;
      expect((await call(method, id, { body, prefix: "gone" })).status).toBe(404);
    }
    expect(world.run).not.toHaveBeenCalled();
  });

  test("answers a PUT with `Prefer: wait` in one round trip, once the result is there", async () => {
    const response = call("PUT", id, { body: request, prefer: "wait=25" });
    await vi.waitFor(() => expect(world.run).toHaveBeenCalled(), 60_000);
    world.done();
    expect((await response).status).toBe(200);
  });

  test("the wait of a PUT includes the time that a slow store takes to admit the invocation", async () => {
    const wait = vi.spyOn(world.registry, "wait");
    world.state.admitted = new Promise((resolve) => setTimeout(resolve, 200));
    const response = call("PUT", id, { body: request, prefer: "wait=25" });
    await vi.waitFor(() => expect(wait).toHaveBeenCalled(), 60_000);
    expect(wait.mock.calls[0]?.[1]).toBeLessThan(24.9);
    await vi.waitFor(() => expect(world.run).toHaveBeenCalled(), 60_000);
    world.done();
    expect((await response).status).toBe(200);
  });

  test("refuses an id that is not the hash of the request, another agent's request, and malformed or oversized bodies", async () => {
    expect((await call("PUT", id, { body: { ...request, task: "another" } })).status).toBe(400);
    const other = { ...request, agent: "writer" };
    expect((await call("PUT", invocationId(other), { body: other })).status).toBe(400);
    expect((await call("PUT", id, { body: { nonsense: true } })).status).toBe(400);
    expect((await call("PUT", id, { body: { ...request, task: "x".repeat(2 << 20) } })).status).toBe(413);
  });
});

describe("the lifecycle of an invocation", () => {
  test("an invocation runs once, however often it is PUT, even concurrently; once it has ended, every GET gets its report", async () => {
    world.state.admitted = new Promise((resolve) => setTimeout(resolve, 20));
    const puts = await Promise.all([1, 2].map(() => call("PUT", id, { body: request })));
    expect(puts.map(({ status }) => status)).toEqual([202, 202]);
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect((await call("GET", `${id}?wait=0`)).status).toBe(202);
    world.done();
    for (let i = 0; i < 2; i++) {
      const response = await call("GET", id);
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual(result);
    }
    expect(world.run).toHaveBeenCalledTimes(1);
  });

  test("GET answers 404 for an unknown id; PUT answers 410 for a closed step, 409 while another version loads, 503 while draining", async () => {
    expect((await call("GET", id)).status).toBe(404);
    world.state.open = false;
    expect((await call("PUT", id, { body: request })).status).toBe(410);
    world.state.open = true;
    world.state.loading = 2;
    const busy = await call("PUT", id, { body: request });
    expect([busy.status, busy.headers.get("retry-after")]).toEqual([409, "1"]);
    world.state.loading = 3;
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    const drained = world.registry.drain(60);
    const late = { ...request, call: 1 };
    expect((await call("PUT", invocationId(late), { body: late })).status).toBe(503);
    world.done();
    await drained;
    expect((await call("GET", id)).status).toBe(200);
  });

  test("DELETE stops the conversation and forgets the id", async () => {
    await call("PUT", id, { body: request });
    expect((await call("DELETE", id)).status).toBe(204);
    expect(world.run.mock.calls[0]?.[2].aborted).toBe(true);
    expect((await call("GET", id)).status).toBe(404);
  });

  test("an infrastructure failure is reported as 502; the next PUT runs the invocation again", async () => {
    await call("PUT", id, { body: request });
    world.fail(new MgrpoError("tool-backend", "the index is down", { retryable: true }));
    const response = await call("GET", id);
    expect([response.status, await response.json()]).toEqual([
      502,
      { code: "tool-backend", message: "the index is down" },
    ]);
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect(world.run).toHaveBeenCalledTimes(2);
    expect(world.fatal).not.toHaveBeenCalled();
  });

  test("a caller that gives up as the conversation fails does not get that failure when it tries again", async () => {
    await call("PUT", id, { body: request });
    world.fail(new MgrpoError("deadline", "too slow"));
    await new Promise(setImmediate);
    await call("DELETE", id);
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect(world.run).toHaveBeenCalledTimes(2);
    world.done();
    expect(await (await call("GET", id)).json()).toEqual(result);
  });

  test("a conversation that exceeds its time limit fails with `deadline`", async () => {
    serveWithin(0.1);
    await call("PUT", id, { body: request });
    const message = `invocation ${id} took more than limits.invocationSeconds 0.1`;
    expect(await (await call("GET", id)).json()).toEqual({ code: "deadline", message });
    expect(world.fatal).not.toHaveBeenCalled();
  });

  test("a bug is fatal to the worker", async () => {
    await call("PUT", id, { body: request });
    world.fail(new TypeError("a bug"));
    expect((await call("GET", id)).status).toBe(502);
    expect(world.fatal).toHaveBeenCalledWith(expect.any(TypeError));
  });
});

/** Keeps `whenReady` and `whenOpen` pending until the test settles them. */
function hold() {
  let begin = () => {};
  let fail: (error: unknown) => void = () => {};
  world.state.ready = new Promise<void>((resolve, reject) => {
    begin = resolve;
    fail = reject;
  });
  return { begin: () => begin(), fail: (error: unknown) => fail(error) };
}

describe("an invocation that waits for its step", () => {
  test("has no time limit until the step opens", async () => {
    serveWithin(0.1);
    const held = hold();
    // Waits longer than the time limit.
    expect((await call("PUT", id, { body: request, prefer: "wait=2" })).status).toBe(202);
    expect(world.run).not.toHaveBeenCalled();
    held.begin();
    await vi.waitFor(() => expect(world.run).toHaveBeenCalledTimes(1), 60_000);
    // Its limit counts from then.
    expect(await (await call("GET", id)).json()).toMatchObject({ code: "deadline" });
  });

  test("is answered 410 when its step closes before it begins", async () => {
    const held = hold();
    await call("PUT", id, { body: request });
    held.fail(new MgrpoError("step-closed", "the step is over"));
    expect((await call("GET", id)).status).toBe(410);
    expect(world.run).not.toHaveBeenCalled();
  });

  test("is answered 503 when the worker drains", async () => {
    hold();
    await call("PUT", id, { body: request });
    const waiting = vi.spyOn(world.registry, "wait");
    const response = call("GET", id);
    await vi.waitFor(() => expect(waiting).toHaveBeenCalled(), 60_000);
    await world.registry.drain(60);
    const answer = await response;
    expect(answer.status).toBe(503);
    expect(await answer.text()).toBe("canceled");
    expect(world.run).not.toHaveBeenCalled();
  });
});

test("the id is 128 bits of the request's hash and does not depend on the order of the request's keys", () => {
  expect(id).toMatch(/^[A-Za-z0-9_-]{22}$/);
  const { address, ...rest } = request;
  expect(invocationId({ ...rest, address: { ...address } })).toBe(id);
  expect(invocationId({ ...request, version: 4 })).not.toBe(id);
});
