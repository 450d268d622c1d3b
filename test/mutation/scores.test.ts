/**
 * @file The README of this folder lists every file that is mutated, with its score or with the reason why it has none, and its percentages
 * and sums are right.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const read = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
const readme = read("README.md");
const FOLDERS = ["core/mgrpo", "core/training"];
const filesIn = (folder: string) =>
  readdirSync(join(import.meta.dirname, "../..", folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `${folder}/${name}`);

const scores = [...readme.matchAll(/^\| `(core\/[^`]+)` \| (\d+) of (\d+) \| ([\d.]+) \|$/gm)].map(
  ([, file = "", killed, all, percent]) => ({ file, killed: Number(killed), all: Number(all), percent }),
);
const reasons = [...readme.matchAll(/^\| `(core\/[^`]+)` \| ([^|]{10,}) \|$/gm)].map(([, file = ""]) => file);

test("every mutated file is listed, with a score or the reason why it has none, and no other file is", () => {
  expect(JSON.parse(read("stryker.json")).mutate).toEqual(FOLDERS.map((folder) => `${folder}/**/*.ts`));
  const mutated = FOLDERS.flatMap(filesIn);
  expect(mutated.length).toBeGreaterThan(40);
  expect([...scores.map(({ file }) => file), ...reasons].sort()).toEqual(mutated.sort());
});

test("the percentage of each file and folder matches its counts", () => {
  const shareOf = ({ killed, all }: { killed: number; all: number }) => ((100 * killed) / all).toFixed(1);
  for (const score of scores) expect(score.percent, score.file).toBe(shareOf(score));
  const count = (n: number) => n.toLocaleString("en");
  for (const folder of FOLDERS) {
    const own = scores.filter(({ file }) => file.startsWith(folder));
    const [killed, all] = [own.reduce((sum, one) => sum + one.killed, 0), own.reduce((sum, one) => sum + one.all, 0)];
    expect(readme).toContain(`${count(killed)} of ${count(all)}, ${shareOf({ killed, all })}%`);
  }
});
