/** @file Halting a run: a running one, one that has finished training, and one that is halted already. */
import { expect, test, vi } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { haltOf, haltRun } from "../../../core/training/halt-run.ts";
import { memoryTable } from "../../fakes/memory-store.ts";

const BUDGET = { code: "budget", reason: "it is spent" } as const;

async function runThatIs(status: string) {
  const table = memoryTable();
  await table.insert(tableKeys.run("r"), { run: "r", status, reason: "before", step: 3 });
  return table;
}

test.each(["running", "finished"])(
  "a %s run is halted, with the code and the reason; nothing else changes",
  async (status) => {
    const table = await runThatIs(status);
    const halt = { code: "refused", reason: "the key is refused" } as const;
    const item = { run: "r", status: "halted", reason: halt.reason, haltCode: halt.code, step: 3 };
    expect(await haltRun(table, "r", halt)).toEqual({ applied: true, item });
    expect(await table.get(tableKeys.run("r"))).toEqual(item);
  },
);

test("a halted run keeps its first halt, and the result says that this call did not halt the run", async () => {
  const table = await runThatIs("halted");
  const item = { run: "r", status: "halted", reason: "before", step: 3 };
  expect(await haltRun(table, "r", BUDGET)).toEqual({ applied: false, item });
  expect(await table.get(tableKeys.run("r"))).toEqual(item);
});

test("halting a run that does not exist creates no record", async () => {
  const table = memoryTable();
  expect(await haltRun(table, "r", BUDGET)).toEqual({ applied: false, item: undefined });
  expect(await table.get(tableKeys.run("r"))).toBeUndefined();
});

test("only a finished run needs a second write", async () => {
  for (const [status, writes] of [
    ["running", 1],
    ["halted", 1],
    ["finished", 2],
  ] as const) {
    const table = await runThatIs(status);
    const update = vi.spyOn(table, "update");
    await haltRun(table, "r", BUDGET);
    expect(update, status).toHaveBeenCalledTimes(writes);
  }
});

test("an error halts the run with its own message; a failed judge is an outage, any other error a refusal", () => {
  const haltAfter = (code: "endpoint-refused" | "judge-failed") => haltOf(new MgrpoError(code, "no key"));
  expect(haltAfter("endpoint-refused")).toEqual({ code: "refused", reason: "no key" });
  expect(haltAfter("judge-failed")).toEqual({ code: "judge-outage", reason: "no key" });
});
