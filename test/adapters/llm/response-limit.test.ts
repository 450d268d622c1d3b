/** @file A model server's response of more than 64 MiB, of any status, is refused, and is not requested again. */
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { json, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

const LIMIT = 64 * 2 ** 20;

async function ask(reply: Reply) {
  const server = await serveOpenAi(() => reply);
  const model = openLanguageModel(`openai:${server.url}#served`);
  let unknown = 0;
  const onUnknownUsage = () => {
    unknown += 1;
  };
  const outcome: unknown = await model
    .complete({ messages: [{ role: "user", content: "?" }], onUnknownUsage })
    .catch((error: unknown) => error);
  return { outcome, unknown, server };
}

const MIB = 2 ** 20;
const MIB_OF_SPACES = gzipSync(Buffer.alloc(MIB, " "));

/** What `reply` sends, with spaces behind it up to `bytes`: 64 KiB on the wire, a part for each MiB. */
function inflated(reply: Reply, bytes: number): Reply {
  if (typeof reply === "string") return expect.fail("no body");
  const text = String(reply.body).padEnd(MIB + (bytes % MIB));
  const body = Buffer.concat([gzipSync(text), ...Array(Math.floor(bytes / MIB) - 1).fill(MIB_OF_SPACES)]);
  return { status: reply.status, body, headers: { "content-encoding": "gzip" } };
}

test("a completion of 64 MiB is read", async () => {
  expect((await ask(inflated(replyWith("yes"), LIMIT))).outcome).toMatchObject({ text: "yes" });
});

test.each([200, 400, 503])(
  "a response of more than 64 MiB with status %i is refused, and not requested again",
  async (status) => {
    const { outcome, unknown, server } = await ask(
      inflated(status === 200 ? replyWith("yes") : json(status, {}), LIMIT + 1),
    );
    expect(outcome).toMatchObject({
      code: "endpoint-refused",
      retryable: false,
      message: `model 'served' at ${server.url} sent a response of more than ${LIMIT} bytes: check that its address is that of a model server`,
    });
    expect(server.requests).toHaveLength(1);
    // The answer may be charged for.
    expect(unknown).toBe(status === 200 ? 1 : 0);
  },
);

test("a response of Bedrock of more than 64 MiB is refused", async () => {
  const server = await serveOpenAi(() => inflated(json(200, {}), LIMIT + 1));
  vi.stubEnv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", new URL(server.url).origin);
  onTestFinished(() => void vi.unstubAllEnvs());
  const model = openLanguageModel("bedrock:eu-central-1#nova", { environment: { AWS_BEARER_TOKEN_BEDROCK: "key" } });
  await expect(model.complete({ messages: [{ role: "user", content: "?" }] })).rejects.toMatchObject({
    code: "endpoint-refused",
    message: expect.stringMatching(/^model 'nova' at Amazon Bedrock in eu-central-1 sent a response of more than/),
  });
});
