/**
 * @file create.*: seconds from nothing to a trained team in a new project, by the steps that a user takes: `npx create-mgrpo`, `npm install`
 * from the registry with an empty cache, `npm start`. create.pack, the time to make both archives from this checkout, is what published
 * packages spare the user; create.total is the sum of the rest. Takes several minutes.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { parseJson } from "../core/contracts/parse.ts";
import { sum } from "../core/statistics.ts";
import { print } from "./measurement.ts";
import { cacheIn, createProject, npm, packArchives } from "./new-project.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const RUN = "bench";

const Score = z.object({ n: z.int(), correct: z.number() }).nullable();
const Report = z.object({ steps: z.int(), heldOut: z.object({ before: Score, after: Score }) });

const folder = temporaryFolder("bench-create");
measure();

function measure(): void {
  const config = { node: process.version };
  const taken: number[] = [];
  const timed = <T>(phase: string, work: () => T): T => {
    const start = performance.now();
    const result = work();
    const seconds = (performance.now() - start) / 1000;
    print(`create.${phase}`, seconds, "s", config);
    taken.push(seconds);
    return result;
  };
  const archives = timed("pack", () => packArchives(folder));
  const project = timed("project", () => createProject(folder, archives));
  timed("install", () => npm(project, "install", `--cache=${cacheIn(folder)}`));
  timed("train", () => npm(project, "start", "--", "--run", RUN));
  const { steps, heldOut } = parseJson(Report, readFileSync(join(project, "runs", RUN, "report.json")), "report.json");
  print("create.total", sum(taken.slice(1)), "s", { ...config, steps, heldOut });
}
