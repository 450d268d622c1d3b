/** @file A promise of an app or a tool that rejects while nothing waits for it is reported, and does not end the process. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import * as z from "zod";
import type { AppCall } from "../../core/contracts/app-rollout.ts";
import type { ToolContext } from "../../core/ports.ts";
import type { AppRunner } from "../../gpu-workers/gateway/app-rollout.ts";
import {
  reportingUnhandledRejections,
  toolsReportingUnhandledRejections,
} from "../../gpu-workers/unhandled-rejections.ts";

/** Vitest's own listeners. They would fail the test run, so each test runs without them. */
const others = process.listeners("unhandledRejection");
beforeEach(() => void process.removeAllListeners("unhandledRejection"));
afterEach(() => {
  process.removeAllListeners("unhandledRejection");
  for (const listener of others) process.on("unhandledRejection", listener);
});

const signal = new AbortController().signal;
const callOf = (id: string): AppCall => ({
  question: { id, kind: "k", level: 1, prompt: "?", facts: null },
  ...{ agents: {}, seconds: 1 },
});

const rejectsAfter = (milliseconds: number, message: string) =>
  new Promise<never>((_, reject) => setTimeout(() => reject(new Error(message)), milliseconds));

/** Two requests at once, awaited one after the other: when the first fails, nothing waits for the second. */
const twoRequests: AppRunner = {
  async run({ question: { id } }) {
    const first = rejectsAfter(5, `${id}: first`);
    const second = rejectsAfter(20, `${id}: second`);
    await first;
    await second;
  },
};

test("the second of two requests that fail is reported with its question, after the call has ended", async () => {
  const reported: [string, string][] = [];
  const app = reportingUnhandledRejections(twoRequests, (error, question) => reported.push([question, String(error)]));
  const calls = ["a", "b"].map((id) => expect(app.run(callOf(id), signal)).rejects.toThrow(`${id}: first`));
  await Promise.all(calls);
  await vi.waitFor(() => expect(reported).toHaveLength(2), 60_000);
  expect(reported).toEqual(["a", "b"].map((id) => [id, `Error: ${id}: second`]));
});

test("a second wrapper of the app also gets the rejection, through one listener", async () => {
  const reported: string[] = [];
  const inner = reportingUnhandledRejections(twoRequests, () => reported.push("inner"));
  const outer = reportingUnhandledRejections(inner, () => reported.push("outer"));
  await expect(outer.run(callOf("a"), signal)).rejects.toThrow("a: first");
  await vi.waitFor(() => expect(reported).toEqual(["inner", "outer"]), 60_000);
  expect(process.listeners("unhandledRejection")).toHaveLength(1);
});

test("a tool's promise that rejects while nothing waits for it is reported with the tool's name, and the call returns its result", async () => {
  const reported: [string, string][] = [];
  class Lookup {
    readonly #found = "found";
    readonly name = "lookup";
    readonly description = "";
    readonly parameters = z.unknown();
    async run(): Promise<string> {
      void rejectsAfter(5, "late");
      return this.#found;
    }
  }
  const tools = toolsReportingUnhandledRejections(new Map([["lookup", new Lookup()]]), (error, tool) =>
    reported.push([tool, String(error)]),
  );
  expect(await tools.get("lookup")?.run(undefined as never, {} as ToolContext)).toBe("found");
  await vi.waitFor(() => expect(reported).toEqual([["lookup", "Error: late"]]), 60_000);
});

test("a rejection that is neither an app's nor a tool's is thrown again, which ends the process", () => {
  reportingUnhandledRejections(twoRequests, () => expect.fail("it is not the app's"));
  const [listener] = process.listeners("unhandledRejection");
  const ours = new Error("a bug of the worker");
  expect(() => listener?.(ours, Promise.resolve())).toThrow(ours);
});
