/** @file What commands say about a run whose name is mistyped, that is not on this machine, or that `halt` cannot halt. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { describe } from "../../cli/terminal/fail.ts";
import { MGRPO } from "../../cli/terminal/name.ts";
import { chdirToProject } from "./command-line.ts";
import { config } from "./records.ts";

const folder = chdirToProject();
const RUN_FOLDER = join("runs", config.run);
/** A process that lives at least as long as the tests. */
const pid = process.ppid;

beforeAll(() => {
  mkdirSync(join(folder, RUN_FOLDER), { recursive: true });
  writeFileSync(join(folder, RUN_FOLDER, "config.json"), JSON.stringify(config));
});
beforeEach(() => {
  for (const name of ["MGRPO_TABLE", "MGRPO_BUCKET"]) vi.stubEnv(name, undefined);
});

function writeStatus(state: "running" | "finished"): void {
  const { run, recipe, arm, seed, steps } = config;
  const totals = { seconds: 1, scoringSeconds: 0, writes: { requests: 0, bytes: 0, units: 0 } };
  const status = { run, recipe, arm, seed, steps, step: 1, state, reason: "", pid, environment: {}, ...totals };
  const heldOut = { before: null, after: null };
  writeFileSync(join(folder, RUN_FOLDER, "status.json"), JSON.stringify({ ...status, heldOut }));
}

const refusalOf = (...args: string[]): Promise<string> =>
  buildProgram()
    .parseAsync(args, { from: "user" })
    .then(() => expect.fail("was accepted"), describe);

test.each(["eval", "halt"])("%s suggests the run that a mistyped name means", async (command) => {
  expect(await refusalOf(command, `${config.run}y`)).toContain(`; did you mean '${config.run}'?`);
});

test("halt says how to end a local run, or that it is already finished", async () => {
  writeStatus("running");
  expect(await refusalOf("halt", config.run)).toBe(
    `'${config.run}' is a local run, and halt is for runs in a store: press Ctrl-C where it runs, or \`kill ${pid}\`; \`${MGRPO} resume ${config.run}\` continues it`,
  );
  writeStatus("finished");
  expect(await refusalOf("halt", config.run)).toMatch(/it is finished, so there is nothing to halt$/);
});

test("halt says where to find a run that is not local", async () => {
  expect(await refusalOf("halt", "elsewhere")).toMatch(/no run 'elsewhere' on this machine: .* --stage <name>/);
});

test.each([
  ["resume", /to resume a run in a store, use `.*launch` with its name as --run$/],
  ["show", /for a run in a store set MGRPO_TABLE and MGRPO_BUCKET$/],
  ["export", /for a run in a store set MGRPO_TABLE and MGRPO_BUCKET$/],
])("%s says what to do about a run that is not local", async (command, advice) => {
  expect(await refusalOf(command, "elsewhere")).toMatch(advice);
});
