/**
 * @file A user's rewards that block their thread, in score-rollout as it is deployed: a bundle, with the project beside it. The call ends
 * at its deadline, its event is delivered again, and other outcomes are scored.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TimerOptions } from "node:timers";
import type { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { bundleHandlers } from "../../bench/bundles/bundle-handlers.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import type { LambdaHandler } from "../../functions/handler.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { playRollout, prepare, teamConfig } from "../fakes/scripted-team.ts";
import { objectCreated, sqsBatch } from "../fixtures/aws-events.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "hung-rewards-"));
const project = join(folder, "project");
/** Contains the id of the question whose rewards block. */
const blockedFile = join(folder, "blocked");
/** Exists once the rewards block. */
const reachedFile = join(folder, "reached");
const REWARDS = `
import { readFileSync, writeFileSync } from "node:fs";
const file = ${JSON.stringify(blockedFile)};
export const rewards = {
  correct({ id }) {
    if (readFileSync(file, "utf8") === id) writeFileSync(${JSON.stringify(reachedFile)}, "");
    for (;;) if (readFileSync(file, "utf8") !== id) return 1;
  },
  expert: () => 0.5,
};`;
const COMPILE = `
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { compileProject } from ${JSON.stringify(pathToFileURL(join(ROOT, "build-project.mjs")).href)};
const [source, target] = process.argv.slice(1);
for (const [path, contents] of await compileProject(source, [])) {
  mkdirSync(dirname(join(target, path)), { recursive: true });
  writeFileSync(join(target, path), contents);
}`;

let store: Awaited<ReturnType<typeof openLocalStore>>;
const handlers = new Map<string, LambdaHandler>();

beforeAll(async () => {
  const recipe = join(folder, "source/team");
  mkdirSync(recipe, { recursive: true });
  for (const part of ["recipe", "tools"]) writeFileSync(join(recipe, `${part}.mjs`), "");
  writeFileSync(join(recipe, "rewards.mjs"), REWARDS);
  execFileSync(process.execPath, ["--input-type=module", "--eval", COMPILE, join(folder, "source"), project]);
  store = await openLocalStore();
  Object.assign(process.env, { MGRPO_PROJECT: project });
  for (const [name, { path }] of await bundleHandlers(["start-run", "score-rollout"], join(folder, "node_modules"))) {
    const module = (await import(/* @vite-ignore */ pathToFileURL(path).href)) as { handler: LambdaHandler };
    handlers.set(name, module.handler);
  }
}, 240_000);

afterAll(async () => {
  vi.restoreAllMocks();
  delete process.env["MGRPO_PROJECT"];
  await store.close();
  for (const left of [folder, store.directory]) rmSync(left, { recursive: true, force: true });
});

/** Longer than another thread takes to start, however busy the machine is. */
const VERDICT_SECONDS = 100;

/** Makes the deadline of a verdict pass as soon as the rewards block. Returns a function that undoes this. */
function passDeadlines(): () => void {
  const timers = createRequire(import.meta.url)("node:timers/promises") as { setTimeout: typeof pause };
  const { setTimeout: wait } = timers;
  const untilReached = async (options?: TimerOptions) => {
    while (!existsSync(reachedFile)) await wait(20, undefined, options);
  };
  timers.setTimeout = (milliseconds, value, options) =>
    milliseconds === VERDICT_SECONDS * 1000
      ? untilReached(options).then(() => wait(0, value, options))
      : wait(milliseconds, value, options);
  syncBuiltinESMExports();
  return () => {
    timers.setTimeout = wait;
    syncBuiltinESMExports();
  };
}

test("rewards that block end at their deadline: their event is delivered again, and another outcome is scored", {
  timeout: 240_000,
}, async () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const settings = { run: "hung", recipe: "team", steps: 1, questionsPerStep: 2 };
  const base = teamConfig(settings);
  const config = { ...base, limits: { ...base.limits, verdictSeconds: VERDICT_SECONDS } };
  await handlers.get("start-run")?.(await prepare(store.objects, config));
  const step = StepRecord.parse(await store.table.get(tableKeys.step("hung", 0)));
  const [blocking, other] = [
    objectCreated(await playRollout(store.objects, config, step, 0, 0)),
    objectCreated(await playRollout(store.objects, config, step, 1, 0)),
  ];
  writeFileSync(blockedFile, step.groups[0] ?? "");
  const score = (events: Record<string, unknown>) =>
    handlers.get("score-rollout")?.(sqsBatch("ScoreRolloutQueue", events));
  const scored = async (group: number) =>
    Object.keys(GroupRecord.parse(await store.table.get(tableKeys.group("hung", 0, group))).rollouts);
  let beats = 0;
  const heartbeat = setInterval(() => beats++, 10);
  const restore = passDeadlines();
  onTestFinished(restore);
  expect(await score({ blocking })).toEqual({ batchItemFailures: [{ itemIdentifier: "blocking" }] });
  restore();
  clearInterval(heartbeat);
  // This thread was not blocked: its timer ran.
  expect(beats).toBeGreaterThan(2);
  // The rewards' thread has two seconds to settle the aborted call, then it is terminated.
  await store.clock.sleep(2);
  expect(await score({ other })).toEqual({ batchItemFailures: [] });
  expect([await scored(0), await scored(1)]).toEqual([[], ["0"]]);
});
