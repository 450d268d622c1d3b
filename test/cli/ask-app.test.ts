/** @file `ask` and `eval` of a team whose rollouts an app runs: the recipe's own, and one behind a URL. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { AppCall } from "../../core/contracts/app-rollout.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { openReportSigner } from "../../gpu-workers/invocations/signature.ts";
import { relayApp } from "../fixtures/relay/app.ts";
import { chdirToProject, RELAY, RELAY_MODELS, relaySettings } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const SECRET = "a secret for tests only";

chdirToProject();
const suite = relaySettings({ name: "sampled" });
/** The questions that the app behind the URL received. */
const questions: string[] = [];
let server: Server;

beforeAll(async () => {
  const sign = openReportSigner(SECRET);
  server = createServer(async (request, response) => {
    const { question, agents } = parseJson(AppCall, await text(request), "call");
    questions.push(question.prompt);
    const named = Object.entries(agents).map(([name, access]) => [name, { ...access, name }]);
    const signal = new AbortController().signal;
    const body = JSON.stringify(await relayApp({ question, agents: Object.fromEntries(named), signal }));
    response
      .writeHead(
        200,
        sign(body, (name) => [request.headers[name] ?? []].flat()[0]),
      )
      .end(body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
});
afterAll(() => server.close());
afterEach(() => {
  delete process.env["MGRPO_RUNNER_SECRET"];
});

const atUrl = () => ["--set", `runner.url=http://127.0.0.1:${(server.address() as AddressInfo).port}/`];
const ask = (...more: string[]) =>
  printedJson(
    "ask",
    "What follows amber?",
    "--team",
    RELAY,
    ...RELAY_MODELS,
    "--temperature",
    "1",
    "--seed",
    "4",
    ...more,
  );

/** What `ask` prints with the recipe's app. */
let byRecipe: Awaited<ReturnType<typeof ask>>;
beforeAll(async () => {
  byRecipe = await ask("--set", "runner=recipe");
});

test("ask runs the recipe's app, and shows every agent's turns", () => {
  const lines = byRecipe;
  const kinds = lines.map(({ kind, agent }) => [kind, agent].join(" ").trim());
  const count = (kind: string) => kinds.filter((one) => one === kind).length;
  expect(kinds[0]).toBe("prompt main");
  expect(kinds.slice(-2)).toEqual(["end main", "result"]);
  expect(count("prompt searcher")).toBeGreaterThan(0);
  expect(count("end searcher")).toBe(count("prompt searcher"));
  expect(lines.at(-1)).toMatchObject({ answer: "birch", tokens: { searcher: { asked: count("prompt searcher") } } });
  expect(lines).toContainEqual(
    expect.objectContaining({ kind: "response", agent: "searcher", name: "lookup", arguments: { word: "amber" } }),
  );
});

test("an app behind a URL gives the same result as the recipe's, and needs the secret", async () => {
  await expect(ask(...atUrl())).rejects.toThrow("set MGRPO_RUNNER_SECRET to a secret");
  process.env["MGRPO_RUNNER_SECRET"] = SECRET;
  const result = (lines: typeof byRecipe) => ({ ...lines.at(-1), seconds: 0 });
  expect(result(await ask(...atUrl()))).toEqual(result(byRecipe));
  expect(questions).toEqual(["What follows amber?"]);
});

test("eval runs the recipe's app and the one behind a URL, with the same scores", async () => {
  const evaluate = (...more: string[]) => printedJson("eval", "models", "--recipe", RELAY, ...suite, ...more);
  await expect(evaluate(...atUrl())).rejects.toThrow("set MGRPO_RUNNER_SECRET to a secret");
  process.env["MGRPO_RUNNER_SECRET"] = SECRET;
  const recipes = await evaluate("--set", "runner=recipe");
  expect(recipes).toMatchObject([{ kind: "evaluation", suite: "sampled", n: 6 }]);
  questions.length = 0;
  expect(await evaluate(...atUrl())).toEqual(recipes);
  expect(questions).toHaveLength(6);
});
