/** @file `mgrpo mine` on the relay team: the same questions even if it is killed midway, a run that trains on them, and a spent budget. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Question } from "../../core/contracts/question.ts";
import { trainQuestions } from "../fixtures/relay/questions.ts";
import { mgrpo, mgrpoWith, projectOfFile, RELAY, relaySettings } from "./command-line.ts";

const folder = projectOfFile();
const relay = ["models", "--recipe", RELAY];
const often = ["--below", "1", "--samples", "3"];
const mining = (file: string, results: string) => [
  ...["mine", ...relay, ...often, "--to", file, "--results", results, "--train"],
];

/** Objects that `mine` stores before it is killed: the run's own, and those of some of its 36 rollouts. */
const STORED_BEFORE_KILL = 30;
const killed = {
  NODE_OPTIONS: `--import=${new URL("../fixtures/killed-at-link.mjs", import.meta.url).href}`,
  MGRPO_TEST_KILL_LINK: String(STORED_BEFORE_KILL),
};

test("the same team, questions and seed give the same file, whether or not `mine` is killed midway; a run can train on it", async () => {
  expect(await mgrpo(folder, ...mining("a.jsonl", "first"))).toMatchObject({ code: 0 });
  const lines = readFileSync(join(folder, "a.jsonl"), "utf8").trim().split("\n");
  const mined = lines.map((line) => JSON.parse(line) as Question);
  expect(mined.length).toBeGreaterThan(0);
  for (const one of mined) expect(trainQuestions).toContainEqual(one);

  expect(await mgrpoWith(killed, folder, ...mining("b.jsonl", "second"))).toMatchObject({ code: null });
  expect(existsSync(join(folder, "b.jsonl"))).toBe(false);
  expect(await mgrpo(folder, ...mining("b.jsonl", "second"))).toMatchObject({ code: 0 });
  expect(readFileSync(join(folder, "b.jsonl"), "utf8")).toBe(readFileSync(join(folder, "a.jsonl"), "utf8"));
  const again = await mgrpo(folder, ...mining("b.jsonl", "second"));
  expect(again.stderr).toContain("--to b.jsonl exists: remove it, or name another file");

  rmSync(join(folder, "b.jsonl"));
  const ofFile = [...relay, ...often, "--suite", "a.jsonl", "--to", "new/b.jsonl", "--results", "second"];
  const suite = await mgrpo(folder, "mine", ...ofFile);
  expect(JSON.parse(suite.stdout)).toMatchObject({ kind: "mined", file: "new/b.jsonl", of: mined.length, samples: 3 });
  const training = ["train", RELAY, "--run", "hard", "--steps", "1", ...relaySettings()];
  expect(await mgrpo(folder, ...training, "--set", "questions.train=a.jsonl")).toMatchObject({ code: 0, stderr: "" });
});

test("if --set gives a budget that is spent, the same command resumes with the option that the message names", async () => {
  const ask = ["mine", ...relay, "--train", "--below", "1", "--to", "budget.jsonl", "--set", "budget.hours=0.000001"];
  const { code, stderr } = await mgrpo(folder, ...ask);
  expect(code).toBe(1);
  expect(stderr).toContain("allow more with --budget-hours <hours in all>");
  expect(await mgrpo(folder, ...ask, "--budget-hours", "1")).toMatchObject({ code: 0, stderr: "" });
});
