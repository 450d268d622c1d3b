/** @file `mgrpo launch` of a run that is in the store: with its first settings, with others, and after its end. */
import { afterAll, expect, test } from "vitest";
import { endRun } from "../../core/training/writes.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { chdirToProject, RELAY, relaySettings } from "./command-line.ts";
import { printed, printedJson } from "./printed.ts";

chdirToProject();
const store = await openLocalStore();
afterAll(() => store.close());

test("a run launched again without the settings of its first launch is refused, and the error says how to resume it; with them, its budget can be raised", async () => {
  const launch = ["launch", RELAY, "--run", "limited", ...relaySettings()];
  const limit = ["--set", "budget.hours=1"];
  expect(await printedJson(...launch, ...limit)).toMatchObject([{ kind: "launched" }]);
  await expect(printed(...launch, "--budget-hours", "2")).rejects.toThrow(
    /budget.hours: 1 \(stored\), null \(requested\); to resume it, repeat the settings of its first launch/,
  );
  await expect(printed(...launch, "--set", "budget.hours=2")).rejects.toThrow(/raise its budget with --budget-/);
  expect(await printedJson(...launch, ...limit, "--budget-hours", "2")).toMatchObject([{ kind: "launched" }]);
});

test.each<[name: string, suites: object[], printed: object]>([
  ["evaluated", [], { kind: "unchanged", run: "evaluated", status: "finished" }],
  [
    "to evaluate",
    [{ name: "greedy", temperature: 0 }],
    { kind: "launched", workers: [expect.stringMatching(/--roles eval$/)] },
  ],
])("launching a finished run names only the workers that have work left: %s", async (name, suites, expected) => {
  const run = name.replaceAll(" ", "-");
  const launch = ["launch", RELAY, "--run", run, ...relaySettings(...suites)];
  await printedJson(...launch);
  await store.table.update(endRun(run, "finished"));
  expect(await printedJson(...launch)).toMatchObject([expected]);
});
