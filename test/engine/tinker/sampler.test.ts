/** @file Sampling through a server: cancellation while a request waits, a restarted server, invalid samples, and a server's adapter limit. */
import { expect, test } from "vitest";
import type { SampleRequest } from "../../../core/ports.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { HOSTED, SKYRL_JAX } from "../../fakes/tinker-models.ts";
import { OPTIONS } from "../tiny.ts";
import { errorOf, tinyTinker } from "./tiny-tinker.ts";

const SERVER = { engine: bigramEngine, files: bigramFiles(30), options: OPTIONS, rules: HOSTED };
const REQUEST: SampleRequest = {
  ...{ sequence: "s", tokens: [1], maxTokens: 4, stop: [[7]], stream: ["s"] },
  sampling: { temperature: 1, topP: 1, topK: 0 },
};

test("a request that waits for a slot is canceled at once", async () => {
  const { engine, files: base, server } = tinyTinker(SERVER);
  const sampler = await engine.openSampler(base, { ...OPTIONS, slots: 1 });
  server.injectFaults(({ path }) => (path === "asample" ? "hang" : undefined));
  const [running, waiting] = [new AbortController(), new AbortController()];
  const first = errorOf(sampler.sample(REQUEST, running.signal));
  const second = errorOf(sampler.sample(REQUEST, waiting.signal));
  waiting.abort();
  expect(await second).toBe("canceled: sampling of 's' was canceled");
  running.abort();
  await first;
  server.injectFaults(() => undefined);
  expect(await sampler.sample(REQUEST)).toMatchObject({ logProbs: expect.any(Array) });
  await sampler.close();
});

test("the model that is created to sample a version is unloaded if its weights cannot be saved for sampling", async () => {
  const { engine, files: base, server } = tinyTinker(SERVER);
  server.injectFaults(({ path }) =>
    path === "save_weights_for_sampler" ? new Response('{"detail": "no space"}', { status: 400 }) : undefined,
  );
  expect(await errorOf(engine.openSampler(base, OPTIONS))).toMatch(/answered 400: no space/);
  expect(server.models.loaded).toEqual([]);
});

test.each<[string, number, string]>([
  [
    "one adapter, like SkyRL's FSDP",
    1,
    "holds one adapter, as SkyRL's FSDP backend does, but a run needs one to train and one for each version that it samples: start SkyRL with --backend jax or megatron",
  ],
  [
    "room for two, like SkyRL's JAX with max_lora_adapters of 3",
    2,
    "has no room for one more adapter: start SkyRL with a larger max_lora_adapters in its --backend-config, or wait until it unloads those of a process that died (5 minutes)",
  ],
])("a server with %s: one more sampler is refused in one line; the trainer continues", async (_, adapters, line) => {
  const { engine, files: base, server } = tinyTinker({ ...SERVER, rules: { ...SKYRL_JAX, adapters } });
  // The probe's model is unloaded before the trainer's is created.
  const trainer = await engine.openTrainer(base, OPTIONS);
  const samplers = [];
  while (server.models.loaded.length < adapters) samplers.push(await engine.openSampler(base, OPTIONS));
  expect(await errorOf(engine.openSampler(base, OPTIONS))).toBe(`endpoint-refused: http://127.0.0.1:9 ${line}`);
  expect(await trainer.logProbs([[1, 2, 3]], 1)).toHaveLength(1);
  await Promise.all([trainer.close(), ...samplers.map((sampler) => sampler.close())]);
  expect(server.models.loaded).toEqual([]);
});

test("a version whose copy a restarted server has lost is sampled from another copy, shared by its requests", async () => {
  const { engine, files: base, server } = tinyTinker({ ...SERVER, rules: SKYRL_JAX });
  const sampler = await engine.openSampler(base, OPTIONS);
  const before = await sampler.sample(REQUEST);
  server.restart();
  server.injectFaults(({ path }) =>
    path === "create_model" ? new Response('{"detail": "starting"}', { status: 400 }) : undefined,
  );
  expect(await errorOf(sampler.sample(REQUEST))).toMatch(/answered 400: starting/);
  server.injectFaults(() => undefined);
  expect(await Promise.all([sampler.sample(REQUEST), sampler.sample(REQUEST)])).toEqual([before, before]);
  expect(server.models.loaded).toHaveLength(1);
  // The first session may have expired with its model.
  const sessions = server.calls.flatMap(({ path, body }) => (path === "create_model" ? [body["session_id"]] : []));
  expect(sessions.at(-1)).not.toBe(sessions[0]);
  await sampler.close();
  expect(server.models.loaded).toEqual([]);
});

test.each<[string, object, RegExp]>([
  ["no log-probs", { stop_reason: "length", tokens: [1], logprobs: null }, /returned 0 log-probs for 1 tokens: update/],
  ["no token", { stop_reason: "length", tokens: [], logprobs: [] }, /returned no token: update the server, or report/],
  [
    "a token of a larger vocabulary",
    { stop_reason: "length", tokens: [1, 30], logprobs: [-1, -1] },
    /returned token 30, outside the model folder's vocabulary of 30: set the agent's model to a folder with/,
  ],
  [
    "a stop token of its own",
    { stop_reason: "stop", tokens: [1, 2], logprobs: [-1, -1] },
    /ended it at token 2, which is not one of the stop sequences: give the agent's model folder/,
  ],
])("a server that returns %s is refused", async (_, sample, message) => {
  const { engine, files: base, server } = tinyTinker(SERVER);
  const sampler = await engine.openSampler(base, OPTIONS);
  server.injectFaults(({ path }) =>
    path === "retrieve_future" ? new Response(JSON.stringify({ sequences: [sample] })) : undefined,
  );
  const found = await errorOf(sampler.sample(REQUEST));
  expect(found).toMatch(/^endpoint-refused: http:\/\/127.0.0.1:9: sample of 's': the server /);
  expect(found).toMatch(message);
});
