/** @file `mgrpo mine` on the relay team: the same questions however often it is killed, and a run that trains on them. */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Question } from "../../core/contracts/question.ts";
import { trainQuestions } from "../fixtures/relay/questions.ts";
import { mgrpo, projectOfFile, RELAY, relaySettings, startMgrpo } from "./command-line.ts";

const folder = projectOfFile();
const relay = ["models", "--recipe", RELAY];
const team = [...relay, ...relaySettings({ name: "sampled" })];
const often = ["--below", "1", "--samples", "3"];
const mineTo = (file: string, results: string, ...more: string[]) =>
  mgrpo(folder, "mine", ...team, ...often, "--to", file, "--results", results, ...more);

/** Files in its bucket: the run's own, and a few answers. */
const STORED_BEFORE_KILL = 40;

test("the same team, questions and seed give the same file, killed in between or not; a run can train on it", {
  timeout: 240_000,
}, async () => {
  expect(await mineTo("a.jsonl", "first", "--train")).toMatchObject({ code: 0 });
  const lines = readFileSync(join(folder, "a.jsonl"), "utf8").trim().split("\n");
  const mined = lines.map((line) => JSON.parse(line) as Question);
  expect(mined.length).toBeGreaterThan(0);
  for (const one of mined) expect(trainQuestions).toContainEqual(one);

  const killed = startMgrpo(
    folder,
    "mine",
    ...team,
    "--train",
    "--below",
    "1",
    "--samples",
    "3",
    "--to",
    "b.jsonl",
    "--results",
    "second",
  );
  // Some of its answers are stored, and most are not.
  const second = join(folder, "second");
  const files = () => (existsSync(second) ? readdirSync(second, { recursive: true, encoding: "utf8" }) : []);
  const stored = () => files().filter((name) => name.includes("buckets")).length;
  await expect.poll(stored, { timeout: 60_000, interval: 10 }).toBeGreaterThan(STORED_BEFORE_KILL);
  killed.kill("SIGKILL");
  expect(existsSync(join(folder, "b.jsonl"))).toBe(false);
  // Its workers end once they notice that their parent is gone.
  await new Promise((done) => setTimeout(done, 2500));
  expect(await mineTo("b.jsonl", "second", "--train")).toMatchObject({ code: 0 });
  expect(readFileSync(join(folder, "b.jsonl"), "utf8")).toBe(readFileSync(join(folder, "a.jsonl"), "utf8"));
  const again = await mineTo("b.jsonl", "second", "--train");
  expect(again.stderr).toContain("--to b.jsonl exists: remove it, or name another file");

  rmSync(join(folder, "b.jsonl"));
  const ofFile = [...relay, ...often, "--suite", "a.jsonl", "--to", "new/b.jsonl", "--results", "second"];
  const suite = await mgrpo(folder, "mine", ...ofFile);
  expect(JSON.parse(suite.stdout)).toMatchObject({ kind: "mined", file: "new/b.jsonl", of: mined.length, samples: 3 });
  const training = ["train", RELAY, "--run", "hard", "--steps", "1", ...relaySettings()];
  expect(await mgrpo(folder, ...training, "--set", "questions.train=a.jsonl")).toMatchObject({ code: 0, stderr: "" });
});
