/** @file Runs a parent with its workers as real processes, kills and restarts them as a scenario says, and reads how the run ended. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Built } from "./build.ts";
import type { ParentOptions } from "./parent.ts";

export interface Scenario extends Pick<ParentOptions, "tickSeconds" | "events" | "evaluates"> {
  /** Worker -> the write that kills its first process, as `n:before` or `n:after`. */
  readonly crashes: Readonly<Record<string, string>>;
  /** The writes that kill the first parent, the second, and so on. */
  readonly parentCrashes: readonly string[];
  /** Changes to the run's config. */
  readonly settings: object;
}

export const uninterrupted: Scenario = {
  crashes: {},
  parentCrashes: [],
  tickSeconds: 0.5,
  events: "once",
  settings: {},
};

export interface Ended {
  readonly records: unknown;
  /** Number of processes started, by name: `parent` or that of a worker. */
  readonly started: Readonly<Record<string, number>>;
  /** The longest time that a worker outlived its killed parent, in milliseconds. */
  readonly orphanMilliseconds: number;
  readonly log: readonly string[];
}

export async function runScenario(built: Built, scenario: Scenario): Promise<Ended> {
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-kill-"));
  const log: string[] = [];
  const started: Record<string, number> = {};
  let records: unknown;
  let pids: number[] = [];
  let orphanMilliseconds = 0;

  function parent(crash: string | undefined): Promise<NodeJS.Signals | null> {
    const { worker, crash: preloaded, recipe, parent: entry } = built;
    const { crashes, tickSeconds, events, settings, evaluates = false } = scenario;
    const options: ParentOptions = {
      directory,
      worker,
      crash: preloaded,
      tickSeconds,
      events,
      evaluates,
      config: { recipe, ...settings },
      crashes: started["parent"] ? {} : crashes,
    };
    started["parent"] = (started["parent"] ?? 0) + 1;
    const child = spawn(process.execPath, ["--import", preloaded, entry, JSON.stringify(options)], {
      env: { ...process.env, MGRPO_TEST_CRASH: crash, NODE_NO_WARNINGS: "1" },
      // Its standard input ends with this process.
      stdio: ["pipe", "pipe", "pipe"],
    });
    createInterface(child.stderr).on("line", (line) => log.push(line));
    createInterface(child.stdout).on("line", (line) => {
      const message: { started?: string; pid?: number; records?: unknown } = JSON.parse(line);
      if (message.started) started[message.started] = (started[message.started] ?? 0) + 1;
      if (message.pid) pids.push(message.pid);
      if (message.records) records = message.records;
    });
    return new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  }

  try {
    for (const crash of [...scenario.parentCrashes, undefined]) {
      if ((await parent(crash)) !== "SIGKILL") break;
      const since = performance.now();
      while (pids.some(isAlive)) await new Promise((resolve) => setTimeout(resolve, 20));
      orphanMilliseconds = Math.max(orphanMilliseconds, performance.now() - since);
      pids = [];
    }
    return { records, started, orphanMilliseconds, log };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
