/** @file The team file of `mgrpo eval --watch`: settings that would change nothing are refused. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { watch } from "../../cli/watch.ts";
import { projectOfFile, RELAY } from "./command-line.ts";

const folder = projectOfFile();

test("a watch refuses settings of training in its team file", async () => {
  const file = join(folder, "watched.json");
  const team = { recipe: RELAY, agent: "main", set: ["agents.searcher.temperature=0.5"] };
  writeFileSync(file, JSON.stringify(team));
  await expect(watch("inbox", { team: file, every: 1, results: join(folder, "watched") })).rejects.toThrow(
    "--team: set agents.searcher.temperature=0.5 changes training alone: leave it out; a suite has its own",
  );
});
