/** @file Requests that end without a sample: closed samplers and released sequences. */
import { expect, test } from "vitest";
import type { SampleRequest } from "../../core/ports.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const open = () => openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, provider: "cpu" });
const request: SampleRequest = {
  sequence: "s",
  tokens: [1, 2, 3],
  maxTokens: 4,
  stop: [],
  sampling: { temperature: 1, topP: 1, topK: 0 },
  stream: ["s"],
};

test("closing a sampler cancels its requests, and those that come later", async () => {
  const sampler = await open();
  const unanswered = expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
  const closing = sampler.close();
  await expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
  await Promise.all([unanswered, closing]);
  await expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
});

test("releasing a sequence cancels all of its requests and no others", async () => {
  const sampler = await open();
  const canceled = [request, request].map((one) =>
    expect(sampler.sample(one)).rejects.toMatchObject({ code: "canceled" }),
  );
  const other = sampler.sample({ ...request, sequence: "other" });
  sampler.release("s");
  await Promise.all(canceled);
  expect((await other).tokens).toHaveLength(4);
  await sampler.close();
});
