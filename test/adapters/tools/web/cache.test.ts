/** @file Cached answers: shared, recorded, encrypted, and replayed without a network; objects in a folder; budgets of rollouts and of runs. */
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { openAnswerCache } from "../../../../adapters/tools/web/external/cache.ts";
import { openFolderObjects } from "../../../../adapters/tools/web/external/folder-objects.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/spending.ts";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import type { ToolContext } from "../../../../core/ports.ts";
import { raiseToolBudget } from "../../../../core/training/tool-spending.ts";
import { objectStoreContract } from "../../../contracts/object-store.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { runRecord } from "../../../fakes/scripted-team.ts";
import { serveWorld, type WorldServer } from "../../../world/server.ts";
import { openWorldTools } from "../../../world/tools.ts";

const folder = mkdtempSync(join(tmpdir(), "tool-cache-"));
let world: WorldServer;
beforeAll(async () => {
  world = await serveWorld();
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true });
});

describe("objects in a folder", () => objectStoreContract(() => openFolderObjects(join(folder, "contract"))));

test("a folder of objects: keys cannot escape it, old temporary files are removed, an error says what to do", async () => {
  const inside = join(folder, "inside");
  const objects = openFolderObjects(inside);
  await objects.commit("../escaped", Buffer.from("x"));
  await objects.commit("a/./b", Buffer.from("y"));
  expect(existsSync(join(folder, "escaped"))).toBe(false);
  expect(await objects.get("../escaped")).toEqual(Uint8Array.from(Buffer.from("x")));
  expect(await objects.get("a/b")).toBeUndefined();

  const left = ["old.json.0123456789ab.part", "new.json.0123456789ab.part", "old.part"].map((name) =>
    join(inside, name),
  );
  for (const path of left) writeFileSync(path, "");
  const twoDaysAgo = new Date(Date.now() - 2 * 24 * 3600 * 1000);
  for (const path of [left[0], left[2]]) utimesSync(path ?? "", twoDaysAgo, twoDaysAgo);
  await openFolderObjects(inside).commit("next", Buffer.from("z"));
  expect(left.map((path) => existsSync(path))).toEqual([false, true, true]);

  writeFileSync(join(folder, "file"), "");
  await expect(openFolderObjects(join(folder, "file")).commit("a", Buffer.from("x"))).rejects.toMatchObject({
    code: "storage-unwritable",
    message: expect.stringContaining("a file is where a folder should be: remove that file, or choose another folder"),
  });
});

const page = (path: string) => ({ url: world.origin + path });

test("an answer recorded in one run is replayed word for word in another without a network; an unrecorded request is named", async () => {
  const store = memoryStore();
  const recording = await openWorldTools(world, {}, { store, run: "first" });
  const ask = async ({ call }: Pick<typeof recording, "call">) => [
    await call("search", { query: "Brenby" }),
    await call("visit", page("/wiki/Brenby")),
    await call("visit", page("/gone")),
    await call("visit", { ...page("/wiki/Brenby"), part: 7 }),
  ];
  const recorded = await ask(recording);
  await recording.close();
  expect(store.objects.keys().every((key) => /^runs\/first\/tools\/[0-9a-f]{64}\.json$/.test(key))).toBe(true);
  const requests = () => [world.searches(), world.asked("/wiki/Brenby"), world.asked("/gone")];
  const before = requests();
  const replaying = await openWorldTools(world, { cache: { mode: "replay", run: "first" } }, { store, run: "second" });
  expect(await ask(replaying)).toEqual(recorded);
  await expect(replaying.call("visit", page("/wiki/Corby"))).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(/^replay: .* no answer of 'visit' .*\/wiki\/Corby.* was recorded/),
  });
  expect(requests()).toEqual(before);
  expect(await store.table.get({ pk: "RUN#second", sk: "TOOLS" })).toMatchObject({ calls: 0, microUsd: 0 });
  await replaying.close();
});

test("an answer for an encrypted question is stored encrypted and found without the canary; an error does not reveal the request", async () => {
  const store = memoryStore();
  const question = { id: "s", kind: "k", level: 1, prompt: "?", answer: "!", facts: null, canary: "of some benchmark" };
  const encrypting = await openWorldTools(world, {}, { store, run: "encrypted" });
  const found = await encrypting.call("search", { query: "Brenby" }, { question });
  const [key = ""] = store.objects.keys();
  const kept = new TextDecoder().decode(await store.objects.get(key));
  expect(kept).toMatch(/^\{"canary":"of some benchmark","encrypted":"[A-Za-z0-9+/=]+"\}$/);
  const replaying = await openWorldTools(world, { cache: { mode: "replay" } }, { store, run: "encrypted" });
  expect(await replaying.call("search", { query: "Brenby" })).toBe(found);
  const missing = await replaying.call("search", { query: "Corby" }, { question }).catch((error: Error) => error);
  expect(missing).toMatchObject({
    message: expect.stringMatching(/no answer of 'search' \(.+\) to this request was recorded/),
    evidence: undefined,
  });
  await Promise.all([encrypting.close(), replaying.close()]);
});

test("identical concurrent calls send one request; live mode sends a repeated call again; a folder shares its answers", async () => {
  const shared = join(folder, "shared");
  const first = await openWorldTools(world, { cache: { folder: shared } });
  const start = world.searches();
  const answers = await Promise.all(Array.from({ length: 8 }, () => first.call("search", { query: "Corby" })));
  expect(new Set(answers).size).toBe(1);
  const before = world.searches();
  expect(before).toBe(start + 1);
  const second = await openWorldTools(world, { cache: { folder: shared } });
  await second.call("search", { query: "Corby" });
  expect(world.searches()).toBe(before);
  const live = await openWorldTools(world, { cache: { mode: "live" } });
  await live.call("search", { query: "Corby" });
  await live.call("search", { query: "Corby" });
  expect(world.searches()).toBe(before + 2);
  await Promise.all([first, second, live].map((tools) => tools.close()));
});

test("of two processes that ask at the same time, both get the answer that is stored first", async () => {
  const { objects } = memoryStore();
  const request = { tool: "search", backend: "serper", arguments: "Alby" };
  const answers = ["one", "other"].map((answer) => {
    const cache = openAnswerCache({ mode: "cached", objects, keyOf: (sha256) => `tools/${sha256}.json` });
    return cache.answer(request, z.string(), async () => answer);
  });
  expect(await Promise.all(answers)).toEqual(["one", "one"]);
});

test("a page is fetched again under other settings that change the response", async () => {
  const cache = { folder: join(folder, "pages") };
  const visit = { allowAddresses: ["127.0.0.1/32"], requestsPerSecond: 1000 };
  const responses: string[] = [];
  const changes = [{ visit: {} }, { blocked: ["127.0.0.1/wiki"] }, {}, { visit: { ...visit, redirects: 0 } }];
  for (const settings of changes) {
    const tools = await openWorldTools(world, { cache, visit, ...settings });
    responses.push(await tools.call("visit", { url: `${world.origin}/moved` }));
    await tools.close();
  }
  expect(responses).toEqual([
    expect.stringContaining("is not a public host"),
    expect.stringContaining("cannot be opened"),
    expect.stringContaining("Alby is a town"),
    expect.stringContaining("cannot be read: it redirects more than 0 times"),
  ]);
});

test("a caller that gives up does not cancel the others that are waiting; a backend's error is not cached", async () => {
  const { call, close } = await openWorldTools(world);
  const impatient = new AbortController();
  const both = Promise.allSettled([
    call("search", { query: "again 1" }, { signal: impatient.signal }),
    call("search", { query: "again 1" }),
  ]);
  impatient.abort(new Error("gone"));
  expect((await both).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  await expect(call("search", { query: "HTTP 401" })).rejects.toThrow("401");
  const before = world.searches();
  await expect(call("search", { query: "HTTP 401" })).rejects.toThrow("401");
  expect(world.searches()).toBe(before + 1);
  await close();
});

describe("budgets", () => {
  const searchAll = (settings: object, queries: string[], context: Partial<ToolContext>) =>
    openWorldTools(world, settings as Record<string, unknown>).then(async ({ call, close }) => {
      const answers = await Promise.all(queries.map((query) => call("search", { query }, context)));
      await close();
      return answers.map((text) => (/^(?:no|the) |^1\. /.exec(text) ? text.split("\n", 1)[0] : text));
    });

  test("a rollout's budget counts calls in call order, cached or not, and the agent reads that it is spent", async () => {
    const ofCalls = { budget: openToolBudget({ calls: 2, microUsd: null }) };
    const spent = "no calls are left: the limit is 2";
    expect(await searchAll({}, ["Alby", "Alby", "Alby"], ofCalls)).toEqual(["1. Alby", "1. Alby", spent]);
    const ofDollars = { budget: openToolBudget({ calls: null, microUsd: 2500 }) };
    expect(await searchAll({}, ["Alby", "Corby", "Dalby"], ofDollars)).toEqual([
      "1. Alby",
      "1. Corby",
      "the remaining budget does not cover this call: it may cost $0.001, and $0.0005 is left",
    ]);
    expect(ofDollars.budget.spent()).toEqual({ calls: 2, microUsd: 2000 });
  });

  test.each([
    [{ calls: 2 }, { calls: 2, microUsd: null }],
    [{ usd: 0.0025 }, { calls: null, microUsd: 2500 }],
    [{}, undefined],
  ])("the tools report the rollout's budget: %j", async (rollout, allowance) => {
    const { allowance: reported, close } = await openWorldTools(world, { budget: { rollout } });
    expect(reported).toEqual(allowance);
    await close();
  });

  test("a run's budget counts uncached requests over all workers, refused ones too; one too many halts the run, and the user can raise the budget", async () => {
    const store = memoryStore();
    await store.table.insert({ pk: "RUN#web", sk: "RUN" }, runRecord({ run: "web" }));
    const budget = { run: { calls: 2 } };
    const workers = await Promise.all([1, 2].map(() => openWorldTools(world, { budget }, { store })));
    const ask = (worker: number, query: string) => workers[worker]?.call("search", { query });
    await ask(0, "Alby");
    await ask(1, "Alby");
    await ask(1, "Corby");
    await expect(ask(0, "Dalby")).rejects.toMatchObject({
      code: "run-halted",
      message: expect.stringContaining(
        "2 calls to backends; allow more with --budget-tool-calls <calls in all>, or in a new run with a higher tools.budget.run.calls",
      ),
    });
    const run = { pk: "RUN#web", sk: "RUN" };
    expect(await store.table.get(run)).toMatchObject({ status: "halted", reason: expect.stringContaining("2 calls") });
    // After training, an evaluation may still send requests.
    const finished = await store.table.update({ key: run, set: [[["status"], "finished"]], when: [] });
    expect(finished.applied).toBe(true);
    await expect(ask(1, "Dalby")).rejects.toMatchObject({ code: "run-halted" });
    expect(await store.table.get(run)).toMatchObject({ status: "halted" });
    const spent = ToolSpendingRecord.parse(await store.table.get({ pk: "RUN#web", sk: "TOOLS" }));
    expect(spent).toMatchObject({ calls: 4, microUsd: 4000 });
    const more = raiseToolBudget(spent, { toolCalls: 5 });
    expect([(await store.table.update(more)).applied, (await store.table.update(more)).applied]).toEqual([true, false]);
    expect(await ask(0, "Dalby")).toMatch(/^1\. Dalby/);
    await Promise.all(workers.map((tools) => tools.close()));
  });
});
