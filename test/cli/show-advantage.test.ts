/** @file `show` under `advantageScale: batch`: the recorded advantages are those before the trainer divides them. */
import { expect, test } from "vitest";
import { loadTrees } from "../../cli/show/load.ts";
import { config, storeOfFinishedRun } from "./records.ts";

test("an advantage under advantageScale batch is said to be not yet divided", async () => {
  const scaled = { ...config, algorithm: { ...config.algorithm, advantageScale: "batch" as const } };
  const [tree] = await loadTrees(await storeOfFinishedRun(), scaled, { step: 0, group: 0, rollout: 0 });
  expect(tree?.tags?.map(({ text }) => text)).toContain("advantage +1.000, not yet divided by the batch's std");
});
