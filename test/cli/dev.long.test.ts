/** @file `mgrpo dev` and the first step of training: the same rewards. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chdirToProject, mgrpo, parsedLines, RELAY, relaySettings } from "./command-line.ts";
import { printed, printedJson } from "./printed.ts";

const folder = chdirToProject();
const withApp = [...relaySettings(), "--set", "runner=recipe", "--set", "agents.searcher.tools=[]"];

test("dev prints the rewards of the first group of training", async () => {
  const [main = expect.fail()] = (await printedJson("dev", RELAY, ...withApp)).filter(({ kind }) => kind === "agent");
  const step = ["--steps", "1", "--set", "questionsPerStep=1", "--set", "rolloutsPerQuestion=4"];
  expect(await mgrpo(folder, "train", RELAY, "--run", "same", ...withApp, ...step)).toMatchObject({ code: 0 });
  const [first] = parsedLines(readFileSync(join(folder, "runs/same/steps.jsonl"), "utf8"));
  const rewards = main["rewards"] as number[];
  expect(first).toMatchObject({ reward: { main: rewards.reduce((total, one) => total + one, 0) / 4 } });
  const shown = await printed("show", "same", "0/0");
  for (const reward of rewards) expect(shown).toContain(`reward ${reward.toFixed(3)}`);
});
