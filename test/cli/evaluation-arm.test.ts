/** @file `eval <run>` evaluates the run's own arm. */
import { mkdirSync } from "node:fs";
import { expect, test } from "vitest";
import { planEvaluation } from "../../cli/evaluation-config.ts";
import { RunHistory } from "../../cli/local/history.ts";
import { createRunFolder } from "../../cli/local/run-folder.ts";
import { chdirToProject, RELAY } from "./command-line.ts";
import { idleCloud } from "./idle-cloud.ts";
import { config } from "./records.ts";

chdirToProject();

test("an arm other than the run's is refused, since no team was trained with its settings", async () => {
  const stored = { ...config, recipe: RELAY };
  const folder = createRunFolder(stored);
  mkdirSync(folder.checkpoints, { recursive: true });
  new RunHistory(stored, folder, idleCloud).save("stopped");
  await expect(planEvaluation(stored.run, { arm: "shared-policy", set: [] })).rejects.toThrow(
    `run '${stored.run}' has arm ${stored.arm}: leave out --arm shared-policy`,
  );
  const { config: planned } = await planEvaluation(stored.run, { arm: stored.arm, set: [] }, { name: "relay" });
  expect(planned.arm).toBe(stored.arm);
});
