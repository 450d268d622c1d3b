/** @file The cost of an evaluation whose judge has no price: one that gives no verdict, and one that is not asked. */
import { join, resolve } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { replyWith, startOpenAiServer } from "../fakes/openai-server.ts";
import { projectOfFile, RELAY } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const folder = projectOfFile();
const server = await startOpenAiServer(() => replyWith("I cannot say"));
afterAll(() => server.close());

test("the judge's price is named as missing, since its server may charge for replies that are not verdicts", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const data = resolve(import.meta.dirname, "../fixtures/benchmarks/webwalkerqa.json");
  try {
    const [report] = await printedJson(
      ...["eval", join(folder, "models"), "--recipe", RELAY, "--suite", "webwalkerqa", "--data", data, "--runs", "1"],
      ...["--judge", `openai:${server.url}#judge`, "--set", "limits.attempts=1", "--results", join(folder, "results")],
    );
    expect(report).toMatchObject({ n: 0, spent: { usd: 0, unpriced: ["judge.usdPerMillionTokens"] } });
    expect(server.requests.length).toBeGreaterThan(0);
  } finally {
    process.exitCode = undefined;
    vi.restoreAllMocks();
  }
});

test("the price of a judge that the recipe's rewards do not ask is not missing", async () => {
  const asked = server.requests.length;
  const [report] = await printedJson(
    ...["eval", join(folder, "models"), "--recipe", RELAY, "--suite", "relay", "--runs", "1"],
    ...["--judge", `openai:${server.url}#judge`, "--results", join(folder, "results")],
  );
  expect(report).toMatchObject({ n: 6, lost: [], spent: { unpriced: [] } });
  expect(server.requests.length).toBe(asked);
});
