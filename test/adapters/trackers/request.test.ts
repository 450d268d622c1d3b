/**
 * @file Requests to trackers: a response that is too large, and redirects, which take keys only to the same origin, or from http to https on
 * the same host.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { openMlflow } from "../../../adapters/trackers/mlflow.ts";
import { openOtlp } from "../../../adapters/trackers/otlp.ts";
import { requestTracker } from "../../../adapters/trackers/request.ts";
import { readTracedRollouts } from "../../../cli/local/traced-rollouts.ts";
import { config, storeOfFinishedRun } from "../../cli/records.ts";
import { serveHttp } from "../../fakes/http-server.ts";

const KEY = "team-key-12345";

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: { readonly url: string; readonly key: unknown; readonly body: string }[] = [];
  const url = await serveHttp(async (request, response) => {
    requests.push({
      url: `${request.method} ${request.url}`,
      key: request.headers["x-honeycomb-team"],
      body: await text(request),
    });
    answer(request, response);
  });
  return { url, requests };
}

/** Without a body it is a GET. */
const send = (url: string, body: string | undefined) =>
  requestTracker(
    { server: "the receiver", run: "look", url, headers: { "x-honeycomb-team": KEY }, body },
    new AbortController().signal,
  );

const redirect = (status: number, location: string) => (_: IncomingMessage, response: ServerResponse) =>
  response.writeHead(status, { location }).end();

test.each([
  ["GET", 302, undefined],
  ["GET", 307, undefined],
  ["POST", 302, "spans"],
  ["POST", 307, "spans"],
])("a redirect of a %s to another server is not followed: status %i", async (method, status, body) => {
  const other = await serve((_, response) => response.end());
  const { url, requests } = await serve(redirect(status, `${other.url}/v1/${KEY}?token=${KEY}`));
  await expect(send(url, body)).rejects.toMatchObject({
    code: "tracker-unavailable",
    retryable: false,
    message: `the receiver redirects to ${other.url}/v1/*** (${status}), which is not followed: set the tracker's address to that of the server that takes the requests`,
  });
  expect(requests).toEqual([{ url: `${method} /`, key: KEY, body: body ?? "" }]);
  expect(other.requests).toEqual([]);
});

test.each([
  ["GET", 302, undefined],
  ["GET", 307, undefined],
  ["POST", 308, "spans"],
])(
  "a redirect of a %s on the same server is followed, with the keys and any body: status %i",
  async (method, status, body) => {
    const { url, requests } = await serve((request, response) => {
      if (request.url === "/new") response.writeHead(200, { "content-type": "text/plain" }).end("taken");
      else response.writeHead(status, { location: "/new" }).end();
    });
    expect(await send(`${url}/old`, body)).toEqual({
      status: 200,
      type: "text/plain",
      body: new TextEncoder().encode("taken"),
    });
    expect(requests).toEqual(
      ["/old", "/new"].map((path) => ({ url: `${method} ${path}`, key: KEY, body: body ?? "" })),
    );
  },
);

test("a redirect that would turn a POST into a GET is not followed, and a loop is followed five times", async () => {
  const login = await serve(redirect(302, "/login"));
  await expect(send(login.url, "spans")).rejects.toThrow(/redirects to .*\/login \(302\), which is not followed/);
  expect(login.requests).toHaveLength(1);
  const loop = await serve(redirect(307, "/again"));
  await expect(send(loop.url, "spans")).rejects.toThrow(/redirects to .*\/again \(307\), which is not followed/);
  expect(loop.requests).toHaveLength(6);
});

test.each<[string, string, boolean]>([
  ["http://host.test:4318/v1/traces", "https://host.test/v1/traces", true],
  ["http://host.test/v1/traces", "https://other.test/v1/traces", false],
  ["https://host.test/v1/traces", "http://host.test/v1/traces", false],
  ["http://host.test/v1/traces", "http://host.test:81/v1/traces", false],
])("from %s to %s is followed: %j", async (from, to, isFollowed) => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: URL, { headers }: { headers: Record<string, string> }) => {
    asked.push(`${url} ${headers["x-honeycomb-team"]}`);
    return url.href === from ? new Response(null, { status: 307, headers: { location: to } }) : new Response("taken");
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  const sent = send(from, "spans");
  await (isFollowed ? expect(sent).resolves.toMatchObject({ status: 200 }) : expect(sent).rejects.toThrow(/redirects/));
  expect(asked).toEqual([`${from} ${KEY}`, ...(isFollowed ? [`${to} ${KEY}`] : [])]);
});

test("a response of more than 16 MiB after decompression is an error that names its status, and is not retryable even with 503", async () => {
  const body = gzipSync(Buffer.alloc(16 * 2 ** 20 + 1));
  const { url } = await serve((_, response) => response.writeHead(503, { "content-encoding": "gzip" }).end(body));
  await expect(send(url, undefined)).rejects.toMatchObject({
    code: "tracker-unavailable",
    retryable: false,
    message: "the receiver answered 503 with more than 16 MiB: check the tracker's address",
  });
});

test("neither OTLP nor MLflow sends anything to the server that another one redirects to", async () => {
  const other = await serve((_, response) => response.end("{}"));
  const { url } = await serve(redirect(307, other.url));
  const store = await storeOfFinishedRun();
  const rollouts = (step: number) => readTracedRollouts(store, config, step);
  const headers = { "x-honeycomb-team": KEY };
  const trackers = [
    openOtlp({ url, headers, run: "look", identity: "look@1", rollouts, report: () => {} }),
    openMlflow({
      url,
      authorization: KEY,
      experiment: "e",
      run: "look",
      identity: "look@1",
      startedAt: 1,
      parameters: {},
    }),
  ];
  for (const tracker of trackers) {
    const line = { step: 1, time: 1_700_000_010_000, source: "step", metrics: { "time/step": 10 } };
    await expect(tracker.send([line], new AbortController().signal)).rejects.toThrow(/which is not followed/);
  }
  expect(other.requests).toEqual([]);
});
