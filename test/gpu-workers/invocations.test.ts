/** @file The invocation server and the client that delegates to it: what each answer means, and what never reaches an agent. */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { invocationId } from "../../gpu-workers/identity.ts";
import { type Desk, openDesk } from "../../gpu-workers/invocations/registry.ts";
import { invocationApp } from "../../gpu-workers/invocations/server.ts";
import { openCallSigner, openCallVerifier, openReportSigner } from "../../gpu-workers/invocations/signature.ts";
import { abortable } from "../../gpu-workers/limits.ts";
import { createLog } from "../../gpu-workers/log.ts";

const PLACE = "0123456789ab";
const TOKEN = "a secret of the team";
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

function answering(wallClockSeconds = 0.3) {
  let settle: { resolve(value: InvocationReport): void; reject(error: unknown): void } = { resolve() {}, reject() {} };
  const state = { open: true, served: Promise.resolve(), loading: undefined as number | undefined };
  const run = vi.fn(
    (_id: string, _request: InvocationRequest, signal: AbortSignal) =>
      new Promise<InvocationReport>((resolve, reject) => {
        settle = { resolve, reject };
        signal.addEventListener("abort", () => reject(new MgrpoError("cancelled", "stopped")));
      }),
  );
  const fatal = vi.fn();
  const desk = openDesk({
    run,
    admits: async () => state.open,
    mayBegin: (_request, signal) => abortable(state.served, signal),
    opened: () => state.served,
    loading: () => state.loading,
    wallClockSeconds,
    fatal,
  });
  return {
    desk,
    run,
    state,
    fatal,
    done: (value = result) => settle.resolve(value),
    fail: (e: unknown) => settle.reject(e),
  };
}

let world: ReturnType<typeof answering>;
let app: ReturnType<typeof invocationApp>;
beforeEach(() => {
  world = answering();
  app = invocationApp("searcher", PLACE, SIGNATURES, world.desk as Desk, log);
});

const clock = { storeTime: async () => Date.now() };
const SIGNATURES = { verify: openCallVerifier(TOKEN, clock), signReport: openReportSigner(TOKEN) };

async function call(
  method: string,
  path: string,
  { body, token = TOKEN, prefer = "", place = PLACE } = {} as {
    body?: unknown;
    token?: string;
    prefer?: string;
    place?: string;
  },
) {
  const text = body === undefined ? "" : canonicalJson(body);
  const { headers: signed } = await openCallSigner(token, clock)({ method, path: `/invocations/${path}`, body: text });
  return app.request(`/${place}/invocations/${path}`, {
    method,
    headers: { ...signed, ...(prefer && { prefer }), "content-length": String(text.length) },
    ...(body !== undefined && { body: text }),
  });
}

describe("the server", () => {
  test("wants calls signed with its secret, whole and exact", async () => {
    expect(
      (await app.request(`/${PLACE}/invocations/${id}`, { headers: { authorization: `Bearer ${TOKEN}` } })).status,
    ).toBe(401);
    for (const token of ["", "wrong", `${TOKEN}x`, TOKEN.slice(0, -1)]) {
      expect((await call("PUT", id, { body: request, token })).status).toBe(401);
      expect((await call("GET", id, { token })).status).toBe(401);
      expect((await call("DELETE", id, { token })).status).toBe(401);
    }
    expect(world.run).not.toHaveBeenCalled();
  });

  test("knows nothing of calls to a worker that had its address before", async () => {
    for (const method of ["PUT", "GET", "DELETE"]) {
      const body = method === "PUT" ? request : undefined;
      expect((await call(method, id, { body, place: "gone" })).status).toBe(404);
    }
    expect(world.run).not.toHaveBeenCalled();
  });

  test("accepts an invocation once, however often it is put, and answers it as often as it is asked", async () => {
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect((await call("GET", `${id}?wait=0`)).status).toBe(202);
    world.done();
    for (let i = 0; i < 2; i++) {
      const answer = await call("GET", id);
      expect(answer.status).toBe(200);
      expect(await answer.json()).toEqual(result);
    }
    expect(world.run).toHaveBeenCalledTimes(1);
  });

  test("answers a put that prefers to wait in one round trip", async () => {
    const answer = call("PUT", id, { body: request, prefer: "wait=5" });
    await vi.waitFor(() => expect(world.run).toHaveBeenCalled());
    world.done();
    expect((await answer).status).toBe(200);
  });

  test("refuses an id that is not the hash of the request, another agent's, and what is no request", async () => {
    expect((await call("PUT", id, { body: { ...request, task: "another" } })).status).toBe(400);
    const other = { ...request, agent: "writer" };
    expect((await call("PUT", invocationId(other), { body: other })).status).toBe(400);
    expect((await call("PUT", id, { body: { nonsense: true } })).status).toBe(400);
    expect((await call("PUT", id, { body: { ...request, task: "x".repeat(2 << 20) } })).status).toBe(413);
  });

  test("says 404 of what it does not know, 410 of a closed step, 409 while another version loads, 503 when draining", async () => {
    expect((await call("GET", id)).status).toBe(404);
    world.state.open = false;
    expect((await call("PUT", id, { body: request })).status).toBe(410);
    world.state.open = true;
    world.state.loading = 2;
    const busy = await call("PUT", id, { body: request });
    expect([busy.status, busy.headers.get("retry-after")]).toEqual([409, "1"]);
    world.state.loading = 3;
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    const drained = world.desk.drain(5);
    const late = { ...request, call: 1 };
    expect((await call("PUT", invocationId(late), { body: late })).status).toBe(503);
    world.done();
    await drained;
    expect((await call("GET", id)).status).toBe(200);
  });

  test("one that is held has no wall clock, and is given back when draining; one whose step went by is told so", async () => {
    world = answering(2);
    app = invocationApp("searcher", PLACE, SIGNATURES, world.desk, log);
    let begin = () => {};
    let fail: (error: unknown) => void = () => {};
    const waits = () =>
      new Promise<void>((resolve, reject) => {
        begin = resolve;
        fail = reject;
      });
    world.state.served = waits();
    expect((await call("PUT", id, { body: request, prefer: "wait=3" })).status).toBe(202);
    expect(world.run).not.toHaveBeenCalled();
    begin();
    await vi.waitFor(() => expect(world.run).toHaveBeenCalledTimes(1));
    world.done();
    expect((await call("GET", id)).status).toBe(200);

    world.state.served = waits();
    const missed = { ...request, call: 1 };
    await call("PUT", invocationId(missed), { body: missed });
    fail(new MgrpoError("step-closed", "the step is over"));
    expect((await call("GET", invocationId(missed))).status).toBe(410);

    world.state.served = waits();
    const given = { ...request, call: 2 };
    await call("PUT", invocationId(given), { body: given });
    const asked = vi.spyOn(world.desk, "wait");
    const answer = call("GET", invocationId(given));
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    await world.desk.drain(5);
    expect((await answer).status).toBe(503);
    expect(world.run).toHaveBeenCalledTimes(1);
  });

  test("cancels: the conversation stops, and the id is unknown again", async () => {
    await call("PUT", id, { body: request });
    expect((await call("DELETE", id)).status).toBe(204);
    expect(world.run.mock.calls[0]?.[2].aborted).toBe(true);
    expect((await call("GET", id)).status).toBe(404);
  });

  test("reports its own infrastructure as 502, once; the next put tries anew", async () => {
    await call("PUT", id, { body: request });
    world.fail(new MgrpoError("tool-backend", "the index is down", { retryable: true }));
    const answer = await call("GET", id);
    expect([answer.status, await answer.json()]).toEqual([502, { code: "tool-backend", message: "the index is down" }]);
    expect((await call("PUT", id, { body: request })).status).toBe(202);
    expect(world.run).toHaveBeenCalledTimes(2);
    expect(world.fatal).not.toHaveBeenCalled();
  });

  test("a conversation that outlasts its wall clock is a deadline, and a bug ends the worker", async () => {
    await call("PUT", id, { body: request });
    expect(await (await call("GET", id)).json()).toMatchObject({ code: "deadline" });
    await call("PUT", id, { body: request });
    world.fail(new TypeError("a bug"));
    expect((await call("GET", id)).status).toBe(502);
    expect(world.fatal).toHaveBeenCalledWith(expect.any(TypeError));
  });
});

test("the id is 128 bits of the request's hash, whatever the order of its keys", () => {
  expect(id).toMatch(/^[A-Za-z0-9_-]{22}$/);
  const { address, ...rest } = request;
  expect(invocationId({ ...rest, address: { ...address } })).toBe(id);
  expect(invocationId({ ...request, version: 4 })).not.toBe(id);
});
