/**
 * @file Events of one kind of one run share a queue: handlers that hang there delay no other run, and no other kind. An event whose handler
 * never succeeds stays unhandled. After `close`, no event is delivered.
 */
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { openDispatcher } from "../../../adapters/local-cloud/dispatcher.ts";

test("hanging handlers of a run's outcomes delay neither its manifests nor other runs", async () => {
  const handled: string[] = [];
  let release = () => {};
  const hung = new Promise<void>((resolve) => {
    release = resolve;
  });
  const dispatcher = openDispatcher({
    async handle({ detail }) {
      const { key } = detail.object;
      if (key.startsWith("runs/slow/outcomes/")) await hung;
      handled.push(key);
    },
    handled: () => {},
    deliveries: () => [0],
    report: () => {},
  });
  const outcomes = Array.from({ length: 20 }, (_, k) => `runs/slow/outcomes/000000/0/${k}.json`);
  const others = ["runs/slow/manifests/main/000001.json", "runs/other/outcomes/000000/0/0.json"];
  for (const [id, key] of [...outcomes, ...others].entries()) dispatcher.enqueue({ id, bucket: "b", key });
  await expect.poll(() => handled).toEqual(others);
  release();
  await expect.poll(() => handled.length).toBe(22);
  await dispatcher.close();
});

test("an event whose handler fails 20 times is reported once, and stays unhandled", async () => {
  // The pause before each further attempt is then 0.
  const random = vi.spyOn(Math, "random").mockReturnValue(-1);
  onTestFinished(() => random.mockRestore());
  const calls: string[] = [];
  const dispatcher = openDispatcher({
    async handle() {
      calls.push("handle");
      throw new Error("no judge");
    },
    handled: () => void calls.push("handled"),
    deliveries: () => [0],
    report: (line) => void calls.push(line),
  });
  dispatcher.enqueue({ id: 1, bucket: "b", key: "runs/r/x.json" });
  const line = "event of runs/r/x.json: not handled in 20 attempts: no judge";
  await expect.poll(() => calls).toContain(line);
  await dispatcher.close();
  expect(calls).toEqual([...Array<string>(20).fill("handle"), line]);
});

test.each(["after", "just before"])("an event that arrives %s `close` stays unhandled", async (when) => {
  const calls: string[] = [];
  const dispatcher = openDispatcher({
    handle: async () => void calls.push("handle"),
    handled: () => void calls.push("handled"),
    deliveries: () => [0],
    report: (line) => void calls.push(line),
  });
  const arrive = () => dispatcher.enqueue({ id: 1, bucket: "b", key: "runs/r/outcomes/000000/0/0.json" });
  if (when === "just before") arrive();
  await dispatcher.close();
  if (when === "after") arrive();
  await pause(20);
  expect(calls).toEqual([]);
});
