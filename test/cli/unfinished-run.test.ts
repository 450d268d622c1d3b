/** @file The commands that use a run's team refuse a run without checkpoints, with one message. */
import { expect, test } from "vitest";
import { readTeam } from "../../cli/ask/config.ts";
import { planEvaluation } from "../../cli/evaluation-config.ts";
import { createRunFolder } from "../../cli/local/run-folder.ts";
import { planServing } from "../../cli/serve/config.ts";
import { chdirToProject } from "./command-line.ts";
import { config } from "./records.ts";

chdirToProject();

test("ask, eval and serve refuse a run that has not finished", async () => {
  const { checkpoints } = createRunFolder(config);
  const { run } = config;
  const plans = [
    () => readTeam({ team: run, seed: 1, temperature: 1, set: [] }),
    () => planEvaluation(run, { set: [] }),
    () => planServing(run, []),
  ];
  for (const plan of plans)
    await expect(plan()).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringMatching(
        `at ${checkpoints}: .* export ${run}\` writes a folder of its last step for eval and serve`,
      ),
    });
});
