/** @file The scheduled tick on AWS: what one run's failure does to the others, to the fleets, and to the log. */
import { afterEach, expect, test, vi } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { Functions } from "../../functions/functions.ts";
import { handleEvent } from "../../functions/lambda/tick.ts";
import type { Reconciliation } from "../../functions/reconciling.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** A scheduled tick of three runs that fail. `logged`: the messages of its lines. */
function tickOfFailingRuns(reconcile: () => Promise<Reconciliation>) {
  const logged: unknown[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((line) => {
    const { level, function: name, message } = JSON.parse(String(line));
    logged.push([level, name, message]);
    return true;
  });
  const functions = {
    async tickAll(onFailure: (error: unknown) => void) {
      for (const run of ["a", "b", "c"]) onFailure(new MgrpoError("record-damaged", `RUN of ${run}`));
    },
    reconcile,
  } as unknown as Functions;
  return { logged, ticked: handleEvent(functions, { "detail-type": "Scheduled Event" }) };
}

test("the first failure rejects, further ones are logged, and the fleets are reconciled all the same", async () => {
  const metrics = { running: 0, unserved: 0, spent: 0, idleMinutes: {} };
  const reconcile = vi.fn(async () => ({ metrics, changes: [], failures: [new Error("a fleet's")] }));
  const { logged, ticked } = tickOfFailingRuns(reconcile);
  await expect(ticked).rejects.toThrow("RUN of a");
  expect(reconcile).toHaveBeenCalledOnce();
  expect(logged).toEqual(["RUN of b", "RUN of c", "a fleet's"].map((message) => ["error", "tick", message]));
});

test("if the fleets cannot be reconciled, the first run's failure is not lost", async () => {
  const { logged, ticked } = tickOfFailingRuns(() => Promise.reject(new Error("no answer")));
  await expect(ticked).rejects.toThrow("RUN of a");
  expect(logged).toEqual(["RUN of b", "RUN of c", "no answer"].map((message) => ["error", "tick", message]));
});
