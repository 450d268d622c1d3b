/** @file What a verdict costs when its cost cannot be recorded, or is unknown: the reserved maximum, never less. */
import { expect, test } from "vitest";
import type { Judgment } from "../../../core/contracts/judge.ts";
import { MgrpoError as Failure } from "../../../core/errors.ts";
import { cost, failed, world } from "./verdict-world.ts";

test("a verdict whose cost cannot be recorded costs what was reserved, and is not asked for again", async () => {
  const { store, ask, bill } = world();
  const asked = () =>
    ask({
      async ask(context) {
        await context.reserve(0.1);
        failNextUpdate();
        return { score: 1, cost: cost(0.08) };
      },
    });
  const { update } = store.table;
  const failNextUpdate = () => {
    store.table.update = async () => {
      store.table.update = update;
      throw new Failure("store-unreachable", "throttled", { retryable: true });
    };
  };
  expect(await failed(asked())).toMatchObject({ code: "store-unreachable" });
  expect(await bill()).toMatchObject({ microUsd: 100_000 });
  expect(await ask({ ask: () => expect.fail("asked") })).toEqual({ score: 1, cost: cost(0.08) });
});

test("a verdict that cannot be committed is paid for", async () => {
  const { store, ask, bill } = world();
  store.objects.commit = () => Promise.reject(new Failure("store-unreachable", "down", { retryable: true }));
  const answer = { score: 1, cost: cost(0.08) };
  expect(await failed(ask({ ask: () => answer }))).toMatchObject({ code: "store-unreachable" });
  expect(await bill()).toMatchObject({ verdicts: 1, microUsd: 80_000 });
});

test.each<[what: string, answer: () => unknown, microUsd: number]>([
  ["throw an error of their own", () => Promise.reject(new SyntaxError("not JSON")), 100_000],
  ["answer no verdict", () => null, 100_000],
  ["report that no request was answered", () => Promise.reject(new Failure("endpoint-unavailable", "HTTP 503")), 0],
])("rewards that reserved money and %s are billed accordingly", async (_what, answer, microUsd) => {
  const { ask, bill } = world();
  const asked = ask({
    async ask(context) {
      await context.reserve(0.1);
      return (await answer()) as Judgment;
    },
  });
  expect(await failed(asked)).toMatchObject({ code: "judge-failed" });
  expect(await bill()).toMatchObject({ verdicts: 0, microUsd });
});
