/** @file The scheduled tick on AWS: fleets are reconciled even if runs fail, and every failure is logged or thrown. */
import { afterEach, expect, test, vi } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { Functions } from "../../functions/functions.ts";
import { handleEvent } from "../../functions/lambda/tick.ts";
import type { Reconciliation } from "../../functions/reconciling.ts";

/** If `areLate`, reconciling stops waiting for the ticks at once. */
const ticks = vi.hoisted(() => ({ areLate: false }));
vi.mock("node:timers/promises", async (original) => {
  const real = await original<typeof import("node:timers/promises")>();
  const pause = (...args: Parameters<typeof real.setTimeout>): Promise<unknown> =>
    ticks.areLate ? Promise.resolve() : real.setTimeout(...args);
  return { ...real, setTimeout: pause };
});

afterEach(() => {
  ticks.areLate = false;
  vi.restoreAllMocks();
});

/** A scheduled tick of three runs that fail. `logged`: level, function and message of each line. The ticks end when `end` settles. */
function tickOfFailingRuns(reconcile: () => Promise<Reconciliation>, end: Promise<void> = Promise.resolve()) {
  const logged: unknown[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((line) => {
    const { level, function: name, message } = JSON.parse(String(line));
    logged.push([level, name, message]);
    return true;
  });
  const functions = {
    async tickAll(onFailure: (error: unknown) => void) {
      for (const run of ["a", "b", "c"]) onFailure(new MgrpoError("record-damaged", `RUN of ${run}`));
      await end;
    },
    reconcile,
  } as unknown as Functions;
  return { logged, ticked: handleEvent(functions, { "detail-type": "Scheduled Event" }) };
}

test("the tick rejects with the first failure, logs the others, and the fleets are still reconciled", async () => {
  const metrics = { unserved: 0, runs: [] };
  const reconcile = vi.fn(async () => ({ metrics, changes: [], failures: [new Error("a fleet's")] }));
  const { logged, ticked } = tickOfFailingRuns(reconcile);
  await expect(ticked).rejects.toThrow("RUN of a");
  expect(reconcile).toHaveBeenCalledOnce();
  expect(logged).toEqual(["RUN of b", "RUN of c", "a fleet's"].map((message) => ["error", "tick", message]));
});

test("if the fleets cannot be reconciled, the tick still rejects with the first run's failure, and logs the others", async () => {
  const { logged, ticked } = tickOfFailingRuns(() => Promise.reject(new Error("no answer")));
  await expect(ticked).rejects.toThrow("RUN of a");
  expect(logged).toEqual(["RUN of b", "RUN of c", "no answer"].map((message) => ["error", "tick", message]));
});

test("if the ticks take long, every failure is logged before they end, since the call may be killed at its time limit", async () => {
  ticks.areLate = true;
  const metrics = { unserved: 0, runs: [] };
  let endTicks = () => {};
  const end = new Promise<void>((resolve) => {
    endTicks = resolve;
  });
  const reconcile = async () => ({ metrics, changes: [], failures: [new Error("a fleet's")] });
  const { logged, ticked } = tickOfFailingRuns(reconcile, end);
  const messages = ["RUN of b", "RUN of c", "RUN of a", "a fleet's"];
  await expect.poll(() => logged).toEqual(messages.map((message) => ["error", "tick", message]));
  endTicks();
  await expect(ticked).rejects.toThrow("RUN of a");
});
