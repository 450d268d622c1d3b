/**
 * @file The worker processes of a local run: one per agent, and one that evaluates the whole team. Each is a child that ends when
 * this process does (its standard input closes), is started again when it crashes, and logs to its own file.
 *
 *     started --exit--> waits 0.2 s .. 6.4 s --> started        a crash, or SIGKILL
 *        |   five exits in a row within 10 s of their start, or one for a full disk --> `failed` rejects: something is wrong for good
 *        '-- stop(): SIGTERM, drained; SIGKILL after 15 s
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../../built-module.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { WorkerRole } from "../../core/contracts/records.ts";
import { type ErrorCode, MgrpoError } from "../../core/errors.ts";
import { RELEASE_VARIABLE, release } from "../../gpu-workers/release.ts";

const QUICK_EXIT_MILLISECONDS = 10_000;
const QUICK_EXITS = 5;
const DRAIN_MILLISECONDS = 15_000;
/** Trying again frees no space. */
const FULL: ErrorCode = "disk-full";

export interface WorkerSpec {
  /** Names its log. */
  readonly name: string;
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  readonly arguments: readonly string[];
}

/** The workers that a run needs, wherever no fleet starts them. */
export function workersOf(config: RunConfig): WorkerSpec[] {
  const agents = Object.entries(config.agents).flatMap(([name, { trained, workers }]) =>
    workerSpecs(config.run, name, name, trained ? ["rollout", "train"] : ["rollout"], workers),
  );
  return [...agents, ...evaluatorsOf(config)];
}

/** The workers that evaluate, if the config asks for any evaluation. */
export function evaluatorsOf({ run, evaluation: { suites, workers } }: RunConfig): WorkerSpec[] {
  return suites.length > 0 ? workerSpecs(run, "eval", "*", ["eval"], workers) : [];
}

function workerSpecs(run: string, name: string, agent: string, roles: WorkerRole[], count: number): WorkerSpec[] {
  return Array.from({ length: count }, (_, i) => ({
    name: i === 0 ? name : `${name}-${i + 1}`,
    ...{ agent, roles },
    arguments: ["--run", run, "--agent", agent, "--roles", roles.join(",")],
  }));
}

/**
 * Workers make much garbage that dies at once. With more room for it less of it is copied, and one thread beside the main one to collect
 * and compile does not spin for a core that another process needs: a sixth of a worker's time less. A heap that begins large is not marked
 * anew for every 30 MB of arrays that an engine leaves behind: a tenth of a step less, for a tenth more memory.
 */
const V8 = ["--max-semi-space-size=32", "--initial-heap-size=128", "--v8-pool-size=1"];

/** How to start a module of this package in a process of its own. */
export function nodeArguments(module: string): string[] {
  return [...V8, fileURLToPath(builtModule(module))];
}

export interface Workers {
  /** Rejects when a worker cannot be kept alive; never resolves. */
  readonly failed: Promise<never>;
  /** Hints that the run moved on: workers look at once instead of at their next poll. */
  hint(): void;
  stop(): Promise<void>;
}

export function startWorkers(
  specs: readonly WorkerSpec[],
  environment: Readonly<Record<string, string>>,
  logs: string,
): Workers {
  const children = new Map<string, ChildProcess>();
  const timers = new Set<NodeJS.Timeout>();
  let stopping = false;
  let fail: (error: MgrpoError) => void = () => {};
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  failed.catch(() => {});

  function start(spec: WorkerSpec, quickExits: number) {
    const log = join(logs, `${spec.name}.log`);
    const file = openSync(log, "a");
    const { size: begun } = fstatSync(file);
    const started = performance.now();
    const child = spawn(process.execPath, [...nodeArguments("gpu-workers/worker"), ...spec.arguments], {
      env: { ...process.env, ...environment, MGRPO_PARENT: "1", [RELEASE_VARIABLE]: release(process.env) },
      stdio: ["pipe", file, file],
      // Its own process group: Ctrl-C reaches this process alone, which then drains it.
      detached: true,
    });
    closeSync(file);
    children.set(spec.name, child);
    // It may be gone while it is written to; a process that could not be started at all exits nowhere.
    child.stdin?.on("error", () => {});
    child.once("exit", (code, signal) => ended(`exit ${signal ?? code}`));
    child.once("error", (error) => child.pid === undefined && ended(error.message));

    function ended(how: string) {
      children.delete(spec.name);
      if (stopping) return;
      const exits = performance.now() - started < QUICK_EXIT_MILLISECONDS ? quickExits + 1 : 1;
      const said = lastWords(log, begun);
      if (exits >= QUICK_EXITS || said.code === FULL) {
        const often = exits === 1 ? "" : ` ${exits} times in a row`;
        const reason = said.error ?? how;
        fail(new MgrpoError("worker-unavailable", `worker '${spec.name}' ended${often}: ${reason} (log: ${log})`));
        return;
      }
      const timer = setTimeout(
        () => {
          timers.delete(timer);
          start(spec, exits);
        },
        100 * 2 ** exits,
      );
      timers.add(timer);
    }
  }
  for (const spec of specs) start(spec, 0);

  return {
    failed,
    hint() {
      for (const { stdin } of children.values()) if (stdin?.writable) stdin.write("\n");
    },
    async stop() {
      stopping = true;
      for (const timer of timers) clearTimeout(timer);
      await Promise.all([...children.values()].map(stopChild));
    },
  };
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const timer = setTimeout(() => child.kill("SIGKILL"), DRAIN_MILLISECONDS);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

/** The error that a worker logged last, and its code; workers log one JSON object per line. `begun`: bytes that others before it had logged. */
function lastWords(path: string, begun: number): { readonly error?: string; readonly code?: unknown } {
  const line = readFileSync(path).subarray(begun).toString("utf8").trimEnd().split("\n").at(-1) ?? "";
  const { error = line, code } = asObject(line);
  const [text = ""] = String(error).split("\n", 1);
  return { ...(text === "" ? {} : { error: text }), code };
}

/** Empty for a line of somebody else, such as a tool of the recipe's that prints. */
function asObject(line: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}
