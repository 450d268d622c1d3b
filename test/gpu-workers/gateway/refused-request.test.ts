/** @file A request that the chat template refuses is the app's fault; an engine's error is the infrastructure's. */
import { expect, test } from "vitest";
import type { AppCall } from "../../../core/contracts/app-rollout.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { Tokenizer } from "../../../core/ports.ts";
import { complete } from "../../fixtures/relay/app.ts";
import { openHarness, tokenizer } from "./harness.ts";

/** Refuses two user messages in a row, as Mistral's templates do. */
const alternating: Tokenizer = {
  ...tokenizer,
  render(messages, ...rest) {
    if (messages.some(({ role }, i) => role === "user" && messages[i + 1]?.role === "user")) {
      throw new MgrpoError("tokenizer-damaged", "chat_template failed on messages with the roles user, user");
    }
    return tokenizer.render(messages, ...rest);
  },
};
const user = (content: string) => ({ role: "user", content });
const ask = ({ agents }: AppCall, agent: string, ...texts: string[]) =>
  complete(agents[agent] ?? expect.fail(), { messages: texts.map(user) });

test.each(["main", "searcher"])(
  "a request to agent '%s' that its template refuses gets status 400 and the reason; an app that continues finishes",
  async (name) => {
    const harness = await openHarness({ tokenizer: alternating });
    const outcome = await harness.run(async (call) => {
      await expect(ask(call, name, "one", "two")).rejects.toThrow(
        "400 request-refused: the model's chat template refuses this conversation: chat_template failed on messages with the roles user, user",
      );
      await ask(call, "main", "say done");
      return { answer: "done" };
    });
    expect(outcome).toMatchObject({ status: "finished", conversation: { answer: "done" }, invocations: [] });
  },
);

test("an app that throws after a refusal fails, and may be retried; the error has both reasons", async () => {
  const harness = await openHarness({ tokenizer: alternating });
  const run = harness.run(async (call) => {
    await ask(call, "main", "one", "two").catch(() => {});
    throw new Error("the database is down");
  });
  await expect(run).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: true },
    message: expect.stringMatching(/the database is down; one of its requests was refused: .* user, user$/),
  });
});

test("a damaged sample never becomes text: its request gets status 503, and an app that continues has no outcome", async () => {
  const harness = await openHarness({
    damage: (sample, agent) =>
      agent === "searcher" ? { ...sample, logProbs: sample.logProbs.map(() => Number.NaN) } : sample,
  });
  let seen: unknown;
  const run = harness.run(async (call) => {
    seen = await ask(call, "searcher", "say found").catch((error: unknown) => error);
    await ask(call, "main", "say tool failed");
    return { answer: "tool failed" };
  });
  await expect(run).rejects.toMatchObject({ code: "prefix-drift" });
  expect(String(seen)).toContain("503 prefix-drift");
});

test("an outage costs nothing if a retry of the same request succeeds; a reply to another request does not make up for it", async () => {
  let damaged = 0;
  const harness = await openHarness({
    damage: (sample, agent) => (agent === "searcher" && damaged++ === 0 ? { ...sample, logProbs: [] } : sample),
  });
  const app = (retried: string) => async (call: AppCall) => {
    await expect(ask(call, "searcher", "say found")).rejects.toThrow("503 prefix-drift");
    await ask(call, "searcher", retried);
    return { answer: "found" };
  };
  expect(await harness.run(app("say found"))).toMatchObject({ conversation: { answer: "found" } });
  damaged = 0;
  await expect(harness.run(app("say other"), 1)).rejects.toMatchObject({ code: "prefix-drift" });
});

test("after an unexpected error the request gets status 500, and an app that continues has no outcome", async () => {
  const harness = await openHarness({
    damage: (sample, agent) => {
      if (agent === "searcher") throw new TypeError("not a function");
      return sample;
    },
  });
  let seen: unknown;
  const run = harness.run(async (call) => {
    seen = await ask(call, "searcher", "say found").catch((error: unknown) => error);
    await ask(call, "main", "say tool failed");
    return { answer: "tool failed" };
  });
  await expect(run).rejects.toMatchObject({
    ...{ code: "session-lost", retryable: true },
    message: "a turn of agent 'searcher' failed: not a function",
  });
  expect(String(seen)).toContain("500 internal_error");
});
