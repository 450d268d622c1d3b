/** @file `mgrpo eval --watch`: its team file may not set what only training reads; its live line. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { progressText, watch } from "../../cli/watch.ts";
import { projectOfFile, RELAY } from "./command-line.ts";

const folder = projectOfFile();

test("a setting that only training reads is refused in the team file", async () => {
  const file = join(folder, "watched.json");
  const team = { recipe: RELAY, agent: "main", set: ["agents.searcher.temperature=0.5"] };
  writeFileSync(file, JSON.stringify(team));
  await expect(watch("inbox", { team: file, every: 1, results: join(folder, "watched") })).rejects.toThrow(
    "--team: set agents.searcher.temperature=0.5 changes only training: leave it out; a suite has its own",
  );
});

test("a recipe's name in the team file is refused if a folder of that name has a recipe too", async () => {
  const file = join(folder, "shared-name.json");
  writeFileSync(file, JSON.stringify({ recipe: "atlas", agent: "main" }));
  mkdirSync(join(folder, "atlas"));
  writeFileSync(join(folder, "atlas/recipe.mjs"), "export const recipe = { name: 'mine', config() {} };");
  vi.spyOn(process, "cwd").mockReturnValue(folder);
  onTestFinished(() => void vi.restoreAllMocks());
  const watching = watch("inbox", { team: file, every: 1, results: join(folder, "watched") });
  await expect(watching).rejects.toThrow(
    /^recipe 'atlas' comes with mgrpo, but there is also .*: write \.\/atlas to use yours/,
  );
});

test("the live line has the checkpoint, the number of suites done, the time since its evaluation began, and the suites left", () => {
  expect(progressText("step-12", 2, ["sampled", "greedy"], 7)).toBe(
    "step-12: 0 of 2 suites done in 7s, left: sampled, greedy",
  );
  expect(progressText("step-12", 2, ["greedy"], 133)).toBe("step-12: 1 of 2 suites done in 2m13s, left: greedy");
  expect(progressText("step-12", 1, [], 3720)).toBe("step-12: 1 of 1 suite done in 1h02m");
});

test("before the first checkpoint, the live line says where the watch waits for one", async () => {
  const [file, inbox] = [join(folder, "waiting.json"), join(folder, "inbox")];
  const set = [`evaluation.suites=${JSON.stringify([{ name: "sampled" }])}`];
  writeFileSync(file, JSON.stringify({ recipe: RELAY, agent: "main", models: { searcher: "models/searcher" }, set }));
  mkdirSync(inbox);
  const { isTTY, columns } = process.stdout;
  Object.assign(process.stdout, { isTTY: true, columns: 200 });
  const written: string[] = [];
  const spy = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    const watching = watch(inbox, { team: file, every: 0.01, results: join(folder, "watched") });
    const refused = expect(watching).rejects.toThrow("no such folder to watch");
    await expect.poll(() => written.join("")).toContain(`0 checkpoints evaluated, waiting for more in ${inbox}`);
    // Without its folder, the watch ends.
    rmSync(inbox, { recursive: true });
    await refused;
  } finally {
    spy.mockRestore();
    Object.assign(process.stdout, { isTTY, columns });
  }
});
