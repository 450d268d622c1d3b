/**
 * @file A remote app whose agent has reached a limit gives up by answering with an error. If its answer is lost, the
 * attempt is retried.
 */
import type { ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { AppCall } from "../../../core/contracts/app-rollout.ts";
import { httpRunner } from "../../../gpu-workers/gateway/runners.ts";
import { serveHttp } from "../../fakes/http-server.ts";
import { complete } from "../../fixtures/relay/app.ts";
import { openHarness } from "./harness.ts";

const CLOCK = { storeTime: async () => Date.now() };

/** An app that begins one more conversation than it may, and then ends the call. */
async function appThat(end: (response: ServerResponse) => void) {
  const url = await serveHttp(async (request, response) => {
    const { agents } = AppCall.parse(JSON.parse(await text(request)));
    const ask = (content: string) =>
      complete(agents["main"] ?? expect.fail(), { messages: [{ role: "user", content }] });
    await ask("say one");
    await ask("say two").catch(() => {});
    end(response);
  });
  return httpRunner({ url, secretVariable: "APP_SECRET" }, { APP_SECRET: "a secret for tests only" }, CLOCK);
}

async function outcomeOf(end: (response: ServerResponse) => void) {
  const harness = await openHarness({ maxBranches: 1 });
  const runner = await appThat(end);
  return harness.run((call, signal) => runner.run(call, signal));
}

test("an app that answers with an error has given up, and the rollout ends at the limit", async () => {
  const outcome = await outcomeOf((response) => response.writeHead(500).end("no luck"));
  expect(outcome).toMatchObject({ status: "finished", conversation: { stop: "turn-limit", answer: null } });
});

test.each<[string, (response: ServerResponse) => void, RegExp]>([
  ["a lost connection", (response) => response.destroy(), /does not answer/],
  ["a proxy's timeout", (response) => response.writeHead(504).end("late"), /answered 504: late/],
])("%s is a retryable failure", async (_what, end, message) => {
  await expect(outcomeOf(end)).rejects.toMatchObject({
    code: "app-failed",
    retryable: true,
    message: expect.stringMatching(message),
  });
});
