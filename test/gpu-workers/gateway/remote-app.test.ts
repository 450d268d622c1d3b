/** @file An app that runs elsewhere: attempts are POSTed to it, and calls and answers are signed. */
import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { expect, test } from "vitest";
import type { AppCall } from "../../../core/contracts/app-rollout.ts";
import { appAttempts } from "../../../gpu-workers/gateway/app-rollout.ts";
import { rolloutHandler } from "../../../gpu-workers/gateway/rollout-handler.ts";
import { httpRunner } from "../../../gpu-workers/gateway/runners.ts";
import { serveHttp } from "../../fakes/http-server.ts";
import { openHarness, planOf } from "./harness.ts";

const SECRET = "a secret for tests only";
const CLOCK = { storeTime: async () => Date.now() };
const CALL: AppCall = {
  question: { id: "q", kind: "k", level: 1, prompt: "What follows?", facts: null },
  agents: { main: { baseURL: "http://127.0.0.1:1/v1", apiKey: "key", model: "main" } },
  seconds: 120,
};

const serve = (handle: (request: Request) => Response | Promise<Response>) =>
  listen(getRequestListener(handle, { overrideGlobalObjects: false }));

const listen = async (listener: RequestListener) => `${await serveHttp(listener)}/attempts?team=1`;

function runnerOf(url: string, secret = SECRET) {
  return httpRunner({ url, secretVariable: "APP_SECRET" }, { APP_SECRET: secret }, CLOCK);
}

const run = (url: string, secret?: string) => runnerOf(url, secret).run(CALL, new AbortController().signal);

test("the app gets the question and its agents, and its result comes back", async () => {
  const url = await serve(
    rolloutHandler(async ({ question, agents }) => ({ answer: `${question.prompt} ${agents["main"]?.name}` }), {
      secret: SECRET,
    }),
  );
  expect(await run(url)).toEqual({ answer: "What follows? main" });
});

test("a call signed with another secret and an unsigned answer are refused, and not retried", async () => {
  const url = await serve(rolloutHandler(async () => ({ answer: "x" }), { secret: SECRET }));
  await expect(run(url, "another secret, of another team")).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: false },
    message: expect.stringContaining("APP_SECRET"),
  });
  const unsigned = await serve(() => Response.json({ answer: "forged" }));
  await expect(run(unsigned)).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: false },
    message: expect.stringContaining("not signed"),
  });
});

test("a call that is refused because the machine slept while the call was on its way is a retryable failure", async () => {
  let now = Date.now() - 8 * 3_600_000;
  const handler = rolloutHandler(async () => ({ answer: "x" }), { secret: SECRET });
  const url = await serve((request) => {
    now = Date.now();
    return handler(request);
  });
  const clock = { storeTime: async () => now };
  const { run } = httpRunner({ url, secretVariable: "APP_SECRET" }, { APP_SECRET: SECRET }, clock);
  const attempt = () => run(CALL, new AbortController().signal);
  await expect(attempt()).rejects.toMatchObject({ code: "app-failed", retryable: true });
  expect(await attempt()).toEqual({ answer: "x" });
});

test("if a proxy removes a part of the path, the error names the whole path, which is what the worker signed", async () => {
  const handler = rolloutHandler(async () => ({ answer: "x" }), { secret: SECRET });
  const url = await serve((request) => handler(new Request(request.url.replace("/attempts", "/"), request)));
  await expect(run(url)).rejects.toThrow("the whole path of the call, /attempts?team=1?");
});

test("a redirect is not followed: the error says where it leads", async () => {
  const url = await serve(() => new Response(null, { status: 308, headers: { location: "/attempts/" } }));
  await expect(run(url)).rejects.toThrow(
    "answered 308: it redirects to /attempts/, which is not followed: change runner.url",
  );
});

test("an error that has a Location header is not a redirect", async () => {
  const url = await serve(() => new Response("no room", { status: 500, headers: { location: "/attempts/1" } }));
  await expect(run(url)).rejects.toThrow(/answered 500: no room$/);
});

test("of two copies of a call, one runs; a worker that gets the response to the other may try again", async () => {
  let runs = 0;
  const handler = rolloutHandler(async () => ({ answer: String(++runs) }), { secret: SECRET });
  const url = await serve(async (request) => {
    await handler(request.clone() as Request);
    return handler(request);
  });
  await expect(run(url)).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: true },
    message: expect.stringContaining("already received"),
  });
  expect(runs).toBe(1);
});

test.each([
  ["an app that throws", () => Promise.reject(new Error("no luck")), /answered 500: no luck/],
  ["an app that does not run", undefined, /does not answer/],
])("%s is a retryable failure", async (_what, app, message) => {
  const url = app ? await serve(rolloutHandler(app, { secret: SECRET })) : "http://127.0.0.1:9/";
  await expect(run(url)).rejects.toMatchObject({
    code: "app-failed",
    retryable: true,
    message: expect.stringMatching(message),
  });
});

test("if the app returns nothing, its result is null", async () => {
  const url = await serve(rolloutHandler(async () => undefined as never, { secret: SECRET }));
  expect(await run(url)).toBeNull();
});

test("an answer that is cut off is a retryable failure", async () => {
  const url = await listen((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-length": "10" });
      response.write("{", () => response.destroy());
    });
  });
  await expect(run(url)).rejects.toMatchObject({
    code: "app-failed",
    retryable: true,
    message: expect.stringContaining("broke off its answer"),
  });
});

test("the scheme of the URL may be in capitals", async () => {
  await expect(run("HTTPS://127.0.0.1:9/")).rejects.toThrow("does not answer");
});

test("an answer that is too long is refused, and not read to its end", async () => {
  let sent = 0;
  const body = () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1 << 16;
        controller.enqueue(new Uint8Array(1 << 16).fill(120));
        if (sent >= 64 << 20) controller.close();
      },
    });
  const url = await serve(() => new Response(body()));
  await expect(run(url)).rejects.toThrow("answered with more than 1048576 characters");
  expect(sent).toBeLessThan(32 << 20);
});

test("an attempt may have more time than the longest timer", async () => {
  const url = await serve(rolloutHandler(async ({ signal }) => ({ answer: `${signal.aborted}` }), { secret: SECRET }));
  expect(await runnerOf(url).run({ ...CALL, seconds: 5e6 }, new AbortController().signal)).toEqual({ answer: "false" });
});

test("a request body that is too large is refused, and not read to its end", async () => {
  let read = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      read += 1 << 16;
      controller.enqueue(new Uint8Array(1 << 16));
      if (read >= 64 << 20) controller.close();
    },
  });
  const handler = rolloutHandler(async () => ({ answer: "x" }), { secret: SECRET });
  const init = { method: "POST", body, duplex: "half" } as RequestInit;
  expect((await handler(new Request("http://127.0.0.1/attempts", init))).status).toBe(413);
  expect(read).toBeLessThan(17 << 20);
});

const withFacts = (facts: AppCall["question"]["facts"]): AppCall => ({
  ...CALL,
  question: { ...CALL.question, facts },
});

test("a question may have several attachments of 500,000 characters in its facts", async () => {
  const url = await serve(
    rolloutHandler(async ({ question }) => ({ answer: `${JSON.stringify(question.facts).length}` }), {
      secret: SECRET,
    }),
  );
  const facts = Array.from({ length: 5 }, () => "漢字".repeat(250_000));
  const given = runnerOf(url).run(withFacts(facts), new AbortController().signal);
  expect(await given).toEqual({ answer: `${JSON.stringify(facts).length}` });
});

test("a call that is too large for the app is not retried, and the error says how large it is", async () => {
  const big = withFacts("x".repeat(17 << 20));
  const url = await serve(rolloutHandler(async () => ({ answer: "x" }), { secret: SECRET }));
  await expect(runnerOf(url).run(big, new AbortController().signal)).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: false },
    message: expect.stringMatching(/the body is larger than 16 MiB; the call has 17\d{6} bytes: raise the limit/),
  });
});

test("each call has a connection of its own: after an early answer, a kept-alive connection could fail where nothing catches the error", async () => {
  const connections: (string | null)[] = [];
  const url = await serve((request) => {
    connections.push(request.headers.get("connection"));
    return new Response("no room", { status: 500 });
  });
  await expect(run(url)).rejects.toThrow(/answered 500/);
  expect(connections).toEqual(["close"]);
});

test("when the attempt is aborted, so is the app's call", async () => {
  const stop = new AbortController();
  let ended = false;
  const waiting = rolloutHandler(
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          ended = true;
          reject(new Error("over"));
        });
        stop.abort();
      }),
    { secret: SECRET },
  );
  const url = await serve(waiting);
  const running = runnerOf(url).run(CALL, stop.signal);
  await expect(running).rejects.toThrow();
  await expect.poll(() => ended, { timeout: 60_000 }).toBe(true);
});

test("a missing secret is reported before any request", () => {
  expect(() => httpRunner({ url: "http://127.0.0.1:9/", secretVariable: "APP_SECRET" }, {}, CLOCK)).toThrow(
    /set APP_SECRET to a secret of at least 16 characters/,
  );
});

test("a remote app is called once its step is open: the seconds that it counts do not include the training of other agents", async () => {
  const opened = new Promise((resolve) => setTimeout(resolve, 500));
  const url = await serve(
    rolloutHandler(
      async ({ signal }) => {
        // A request to a sub-agent whose version is not yet published would also wait until then.
        await opened;
        signal.throwIfAborted();
        return { answer: "x" };
      },
      { secret: SECRET },
    ),
  );
  const { team, attempts } = await openHarness();
  const attempt = appAttempts({ team, attempts, runner: runnerOf(url), seconds: 0.2 });
  const outcome = await attempt({ ...planOf(0), opened }, new AbortController().signal);
  expect(outcome).toMatchObject({ status: "finished", conversation: { answer: "x" } });
});
