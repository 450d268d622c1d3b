/** @file The list of runs in the dashboard: those of this folder, and those of the store that the environment names. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runsView } from "../../cli/ui/run-view.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { chdirToProject } from "./command-line.ts";
import { config, RUN } from "./records.ts";

const folder = chdirToProject();

test("a run of this folder hides one of the same name in the store", async () => {
  mkdirSync(join(folder, "runs", RUN), { recursive: true });
  writeFileSync(join(folder, "runs", RUN, "config.json"), JSON.stringify(config));
  const store = await openLocalStore();
  try {
    // Each is listed without records, so its row says "damaged", unless it is hidden.
    for (const run of [RUN, "elsewhere"]) await store.table.insert(tableKeys.listed(run), { run });
    expect(await runsView()).toMatchObject({
      runs: [
        { run: RUN, state: "stopped" },
        { run: "elsewhere", state: "damaged" },
      ],
      failure: null,
    });
  } finally {
    await store.close();
  }
});
