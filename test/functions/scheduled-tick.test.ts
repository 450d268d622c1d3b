/** @file The scheduled tick on AWS: what one run's failure does to the others, to the fleets, and to the log. */
import { afterEach, expect, test, vi } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { Functions } from "../../functions/functions.ts";
import { handleEvent } from "../../functions/lambda/tick.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

test("the first failure rejects, further ones are logged, and the fleets are reconciled all the same", async () => {
  const logged: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((line) => logged.push(String(line)) > 0);
  const metrics = { running: 0, unserved: 0, spent: 0, idleMinutes: {} };
  const reconcile = vi.fn(async () => ({ metrics, changes: [], failures: [new Error("a fleet's")] }));
  const functions = {
    async tickAll(onFailure: (error: unknown) => void) {
      for (const run of ["a", "b", "c"]) onFailure(new MgrpoError("record-damaged", `RUN of ${run}`));
    },
    reconcile,
  } as unknown as Functions;
  await expect(handleEvent(functions, { "detail-type": "Scheduled Event" })).rejects.toThrow("RUN of a");
  expect(reconcile).toHaveBeenCalledOnce();
  expect(logged.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ level: "error", function: "tick", message: "RUN of b" }),
    expect.objectContaining({ level: "error", function: "tick", message: "RUN of c" }),
  ]);
});
