/**
 * @file The client under failures of a server or proxy: it retries where that helps, does nothing twice, and reports what a retry cannot fix in
 * one line that names the endpoint.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTinkerClient, type TinkerModel } from "../../../engine/tinker/client/client.ts";
import type { Datum } from "../../../engine/tinker/client/messages.ts";
import type { TransportOptions } from "../../../engine/tinker/client/transport.ts";
import { scoringDatum } from "../../../engine/tinker/data.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import type { Call, Fault } from "../../fakes/tinker-faults.ts";
import { FakeTinker } from "../../fakes/tinker-server.ts";
import { OPTIONS } from "../tiny.ts";

const BASE = "http://127.0.0.1:9";
const DATA: Datum[][] = [[scoringDatum([1, 2, 3])], [scoringDatum([4, 5])]];
const ADAM = { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0 };
const GREEDY = { max_tokens: 2, temperature: 0, top_k: -1, top_p: 1 };
const json = (value: unknown, status = 200, headers = {}) => Response.json(value, { status, headers });

function open(changes: Partial<TransportOptions> = {}) {
  const parts = { engine: bigramEngine, files: bigramFiles(30), options: OPTIONS };
  const server = new FakeTinker({ ...parts, pollMilliseconds: 20 });
  const client = openTinkerClient({ baseUrl: BASE, fetch: server.fetch, pauseSeconds: 0.001, ...changes });
  return { server, client };
}

async function openModel(changes: Partial<TransportOptions> = {}) {
  const { server, client } = open(changes);
  const session = await client.openSession();
  return { server, client, session, model: await session.createModel("tiny-qwen3", { rank: 8, seed: 1 }) };
}

/** Makes the first calls of a path fail, one fault each. Removes the faults that it has used. */
const failFirst = (path: string, faults: (() => Fault)[]) => (call: Call) =>
  call.path === path ? faults.shift()?.() : undefined;

/** A training step, saved: its results show whether anything was done twice. */
async function train(model: TinkerModel) {
  await model.forwardBackward(DATA, "cross_entropy");
  const { metrics } = await model.optimizerStep(ADAM);
  const after = await model.forward(DATA, "cross_entropy");
  return { metrics, after, weights: await model.saveWeights(), sampler: await model.saveForSampler() };
}

test.each<[string, string, (() => Fault)[]]>([
  ["a refused connection", "forward_backward", [() => "refused", () => "refused"]],
  ["a lost response", "forward_backward", [() => "lost"]],
  ["two lost responses of the optimizer", "optim_step", [() => "lost", () => "lost"]],
  [
    "429 with a short retry-after-ms",
    "optim_step",
    [() => json({ detail: "slow down" }, 429, { "retry-after-ms": "2" })],
  ],
  ["a 502 from a proxy", "forward", [() => new Response("<html>bad gateway", { status: 502 })]],
  ["408", "optim_step", [() => json({ detail: "timeout" }, 408)]],
  ["409 with x-should-retry", "optim_step", [() => json({ detail: "locked" }, 409, { "x-should-retry": "true" })]],
  ["a hanging connection", "forward_backward", [() => "hang"]],
  ["a poll that hangs", "retrieve_future", [() => "hang"]],
  [
    "results that are cut off",
    "retrieve_future",
    ['{"model_id": "mod', '{"metrics": {}', ""].map((body) => () => new Response(body)),
  ],
  ["a poll that a proxy refuses", "retrieve_future", [() => new Response("", { status: 400 })]],
  [
    "a future that is still pending",
    "retrieve_future",
    [() => json({ type: "try_again", request_id: "1", queue_state: "active" })],
  ],
  ["a future that expired", "retrieve_future", [() => json({ detail: "expired" }, 410)]],
  ["saves whose responses are lost", "save_weights", [() => "lost", () => "lost"]],
])("%s: the step is done once, with the same numbers", async (_, path, faults) => {
  const expected = await train((await openModel()).model);
  // Hanging calls time out soon. A call that is slow because the machine is busy is retried too.
  const { server, model } = await openModel({ requestSeconds: 0.2, pollSeconds: 0.2 });
  const left = [...faults];
  server.injectFaults(failFirst(path, left));
  const found = await train(model);
  expect(left).toEqual([]);
  expect(found.metrics).toEqual(expected.metrics);
  expect(found.after).toEqual(expected.after);
  expect([found.weights, found.sampler].map((saved) => server.models.saved.get(saved)?.steps)).toEqual([1, 1]);
});

/** All its chunks share one buffer. */
function endless(): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(16 << 20);
  return new ReadableStream({ pull: (controller) => controller.enqueue(chunk) });
}

test.each<[string, () => Response, RegExp]>([
  ["400", () => json({ detail: "no such loss" }, 400), /answered 400: no such loss/],
  ["401", () => json({ detail: "no key" }, 401), /answered 401: no key/],
  ["409", () => json({ detail: "number was reused" }, 409), /answered 409: number was reused/],
  [
    "422",
    () => json({ detail: [{ loc: ["body", "lora_config"], msg: "Field required" }] }, 422),
    /answered 422: body.lora_config: Field required/,
  ],
  ["another site's page", () => new Response("<html>"), /is not JSON: is this a Tinker server\?/],
  ["an endless response", () => new Response(endless()), /has more than 536870912 bytes: is this a Tinker server\?/],
  ["a NaN", () => new Response('{"metrics": {"norm": NaN}}'), /has NaN or Infinity: lower the learning rate/],
  ["another API's response", () => json({ ok: true }), /response to POST .*optim_step: request_id/],
])("%s is reported without a retry", async (_, respond, message) => {
  const { server, model } = await openModel();
  server.injectFaults(failFirst("optim_step", [respond]));
  await expect(model.optimizerStep(ADAM)).rejects.toMatchObject({
    ...{ code: "endpoint-refused", retryable: false },
    message: expect.stringMatching(message),
  });
});

const TRACEBACK = `Traceback (most recent call last):\n${'  File "worker.py", line 1\n'.repeat(100)}ValueError: the loss is NaN`;

test.each<[string, string, () => Response, string]>([
  ["a refusal", "optim_step", () => json({ detail: TRACEBACK }, 400), "answered 400: Traceback"],
  [
    "a proxy's page",
    "optim_step",
    () => new Response("<html>\n<body>\n\tno", { status: 404 }),
    "404: <html> <body> no",
  ],
  ["failed work", "retrieve_future", () => json({ error: TRACEBACK, category: "user" }), "failed: Traceback"],
])("%s of many lines is one line of the error, which keeps the end", async (_, path, respond, start) => {
  const { server, model } = await openModel();
  server.injectFaults(failFirst(path, [respond]));
  const message = await model.optimizerStep(ADAM).catch(String);
  expect(message).toContain(start);
  expect(message).not.toMatch(/[\n\t]/);
  if (start.includes("Traceback")) expect(message).toMatch(/ … .*ValueError: the loss is NaN$/);
});

test("a redirect is neither followed nor retried: the URL is wrong", async () => {
  const paths: (string | undefined)[] = [];
  const server = createServer(({ url }, response) => {
    paths.push(url);
    response.writeHead(308, { location: "/elsewhere", connection: "close" }).end();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = openTinkerClient({ baseUrl: `http://127.0.0.1:${port}` });
  await expect(client.capabilities()).rejects.toMatchObject({
    ...{ code: "endpoint-refused", retryable: false },
    message: expect.stringMatching(/answered 308: it redirects to \/elsewhere, which is not followed/),
  });
  expect(paths).toHaveLength(1);
});

test.each<[string, () => Fault, Partial<TransportOptions>, RegExp]>([
  [
    "endless 503 responses",
    () => json({ detail: "overloaded" }, 503),
    {},
    /asample answered 503: overloaded, even after 0.2 s of retries: check the Tinker server/,
  ],
  ["a server that is gone", () => "refused", {}, /asample: ECONNREFUSED, even after/],
  ["a server that never responds", () => "hang", { requestSeconds: 0.2 }, /asample: no response in 0.2 s, even after/],
])("%s: the endpoint is reported as unavailable once retries are exhausted", async (_, fault, limits, message) => {
  const { server, client } = open({ retrySeconds: 0.2, ...limits });
  server.injectFaults(fault);
  await expect(client.sample({ base_model: "tiny-qwen3" }, [1], GREEDY)).rejects.toMatchObject({
    ...{ code: "endpoint-unavailable", retryable: true },
    message: expect.stringMatching(message),
  });
});

test("an outage is reported once, however many calls wait for its end, and the next outage is reported too", async () => {
  const onOutage = vi.fn();
  const { server, client } = open({ onOutage });
  const outage = () => {
    const busy = Array.from({ length: 2 }, () => () => json({ detail: "busy" }, 503));
    server.injectFaults(failFirst("get_server_capabilities", busy));
    return Promise.all([client.capabilities(), client.capabilities()]);
  };
  await outage();
  expect(onOutage).toHaveBeenCalledExactlyOnceWith(
    expect.stringMatching(/^GET .*get_server_capabilities answered 503: busy$/),
  );
  await outage();
  expect(onOutage).toHaveBeenCalledTimes(2);
});

test("without retries, no pause follows the only attempt, whatever the server asks for", async () => {
  const { server, client } = open({ retrySeconds: 0 });
  server.injectFaults(
    failFirst("get_server_capabilities", [() => json({ detail: "busy" }, 503, { "retry-after": "60" })]),
  );
  await expect(client.capabilities()).rejects.toMatchObject({
    ...{ code: "endpoint-unavailable", retryable: true },
    message: expect.stringMatching(/answered 503: busy: check the Tinker server/),
  });
}, 30_000);

test("a future that stays pending fails with its request id", async () => {
  const { server, client } = open({ futureSeconds: 0.05 });
  const pending = () => json({ detail: "Timeout waiting for result" }, 408);
  server.injectFaults(({ path }) => (path === "retrieve_future" ? pending() : undefined));
  await expect(client.sample({ base_model: "tiny-qwen3" }, [1], GREEDY)).rejects.toMatchObject({
    ...{ code: "endpoint-unavailable", retryable: true },
    message: expect.stringMatching(/^asample of http:\/\/127.0.0.1:9: request \d+ is still pending after 0.05 s/),
  });
});

test("work that fails because of the request is reported as refused; because of the server, as retryable", async () => {
  const { server, model } = await openModel();
  const failing = (category: string) =>
    server.injectFaults(failFirst("retrieve_future", [() => json({ error: "no such loss", category })]));
  failing("user");
  await expect(model.optimizerStep(ADAM)).rejects.toMatchObject({
    code: "endpoint-refused",
    message: expect.stringMatching(/failed: no such loss/),
  });
  failing("server");
  await expect(model.optimizerStep(ADAM)).rejects.toMatchObject({ code: "endpoint-unavailable", retryable: true });
});

test("a restarted server has no models: the error reports it, and a fresh model continues from the saved weights", async () => {
  const { server, session, model } = await openModel();
  const { weights, after } = await train(model);
  server.restart();
  await expect(model.forward(DATA, "cross_entropy")).rejects.toMatchObject({
    ...{ code: "endpoint-refused", message: expect.stringMatching(/answered 400: Model model_2 not loaded/) },
  });
  const next = await session.createModel("tiny-qwen3", { rank: 8, seed: 1 });
  await next.loadWeights(weights);
  expect(await next.forward(DATA, "cross_entropy")).toEqual(after);
  // Weights can be loaded only into a fresh model.
  await expect(next.loadWeights(weights)).rejects.toThrow(/LoadWeights is not permitted with seq_id 4/);
});

test("a model on a base other than the requested one is refused: SkyRL always uses its own base", async () => {
  const { client } = open();
  const session = await client.openSession();
  await expect(session.createModel("other/model", { rank: 8 })).rejects.toMatchObject({
    message: "create_model: asked for rank 8 on 'other/model', but the server created rank 8 on 'tiny-qwen3'",
  });
});

test("a model whose creation expired is created again, and later calls go to the new one", async () => {
  const { server, client } = open();
  const session = await client.openSession();
  server.injectFaults(failFirst("retrieve_future", [() => json({ detail: "expired" }, 410)]));
  const model = await session.createModel("tiny-qwen3", { rank: 8, seed: 1 });
  expect(server.models.loaded).toHaveLength(2);
  expect(model.id).toBe(server.models.loaded[1]);
});

test("the fake server refuses a sequence number that was used for another request", async () => {
  const { server, model } = await openModel();
  await model.forward(DATA, "cross_entropy");
  const body = JSON.stringify({ model_id: model.id, seq_id: 1, forward_input: { data: [], loss_fn: "cross_entropy" } });
  expect((await server.fetch(`${BASE}/api/v1/forward`, { method: "POST", body })).status).toBe(409);
});

test("deleting weights twice succeeds", async () => {
  const { server, client, model } = await openModel();
  const { weights, sampler } = await train(model);
  await client.deleteWeights(weights);
  await client.deleteWeights(weights);
  await client.deleteWeights(sampler);
  expect(server.models.saved.size).toBe(0);
});

test("an aborted call ends at once, even while a poll hangs", async () => {
  const { server, client } = open();
  const abort = new AbortController();
  server.injectFaults(({ path }) => {
    if (path !== "retrieve_future") return undefined;
    setImmediate(() => abort.abort(new Error("enough")));
    return "hang";
  });
  await expect(client.sample({ base_model: "tiny-qwen3" }, [1], GREEDY, abort.signal)).rejects.toThrow("enough");
});

test.each([
  ["https://tinker.example/services/prod", "tml-secret", "check TINKER_API_KEY"],
  ["http://127.0.0.1:8000", "tml-secret", "check TINKER_API_KEY"],
  ["http://gpu1:8000", null, "the key was not sent, as it goes only over https or to this machine: use https"],
])("the key goes only over https or to this machine, and into no error: %s gets %s", async (baseUrl, key, advice) => {
  const { server, client } = open({ baseUrl, apiKey: "tml-secret" });
  await client.capabilities();
  expect(server.calls[0]?.headers.get("x-api-key")).toBe(key);
  server.injectFaults(({ headers }) => json({ detail: `unknown: ${headers.get("x-api-key")}` }, 403));
  const message = await client.capabilities().catch(String);
  expect(message).toContain(`answered 403: unknown: ${key && "***"}: ${advice}`);
  expect(message).not.toContain("secret");
});

test("a key that a header cannot carry is refused before a request, by an error that does not contain it", async () => {
  const { server, client } = open({ apiKey: "tml-first\ntml-secret" });
  const message = expect.stringMatching(/^(?!.*secret).*TINKER_API_KEY/s);
  await expect(client.capabilities()).rejects.toMatchObject({ code: "config-invalid", message });
  expect(server.calls).toEqual([]);
});
