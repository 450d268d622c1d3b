/** @file A death strikes at its own request, however many are under way. */
import { expect, test } from "vitest";
import type { Death } from "./schedule.ts";
import { Supervisor } from "./supervisor.ts";

test("a death after request 0 waits for the answer to request 0, while request 1 is under way", async () => {
  const death: Death = { process: "idle", request: 0, when: "after", signal: "kill", seconds: 0 };
  const supervisor = new Supervisor([death], () => {});
  supervisor.start({ name: "idle", command: ["-e", "setInterval(() => {}, 1000)"], environment: {} });
  const afterFirst = supervisor.onRequest("idle");
  const afterSecond = supervisor.onRequest("idle");
  afterSecond();
  expect(supervisor.died).toEqual([]);
  afterFirst();
  expect(supervisor.died).toEqual([death]);
  await supervisor.stopAll();
});
