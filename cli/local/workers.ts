/**
 * @file The worker processes of a local run: those of each agent, and those that evaluate the whole team. Each is a child that exits when
 * this process does (its standard input closes), is restarted when it crashes, and logs to its own file.
 *
 *     started --exit--> waits 0.2 s .. 1.6 s --> started        a crash, or SIGKILL
 *        |   five exits in a row, the last four each within 10 s of its start, or one on a full disk --> `failed` rejects
 *        '-- stop(), or finishTraining() if it does not evaluate: SIGTERM, drained; SIGKILL after 15 s
 *
 * Consecutive exits while the same rollout runs alone count as one: the run abandons it after a few (core/training/abandon-rollouts.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../../built-module.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { jsonOrUndefined, parse } from "../../core/contracts/parse.ts";
import { WorkerRecord, type WorkerRole } from "../../core/contracts/records.ts";
import { type ErrorCode, errorText, MgrpoError } from "../../core/errors.ts";
import type { Table } from "../../core/ports.ts";
import { trainedAgents } from "../../core/training/step-plan.ts";
import { RELEASE_VARIABLE, release } from "../../gpu-workers/release.ts";

const QUICK_EXIT_MILLISECONDS = 10_000;
const MAX_EXITS = 5;
const DRAIN_MILLISECONDS = 15_000;
/** Longer than any line of a worker's log. Not the whole log, which can be larger than memory. */
const TAIL_BYTES = 1 << 16;
/** Not retried: a restart frees no space. */
const DISK_FULL: ErrorCode = "disk-full";

export interface WorkerSpec {
  /** Also the name of its log file. */
  readonly name: string;
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  readonly arguments: readonly string[];
}

/** The workers of a run. */
export function workersOf(config: RunConfig): WorkerSpec[] {
  const trained = trainedAgents(config);
  const agents = Object.entries(config.agents).flatMap(([name, { workers }]) =>
    workerSpecs(config.run, name, name, trained.includes(name) ? ["rollout", "train"] : ["rollout"], workers),
  );
  return [...agents, ...evaluatorsOf(config)];
}

/** The workers that evaluate; none without suites. */
export function evaluatorsOf({ run, evaluation: { suites, workers } }: RunConfig): WorkerSpec[] {
  return suites.length > 0 ? workerSpecs(run, "eval", "*", ["eval"], workers) : [];
}

function workerSpecs(run: string, name: string, agent: string, roles: WorkerRole[], count: number): WorkerSpec[] {
  return Array.from({ length: count }, (_, i) => ({
    name: i === 0 ? name : `${name}-${i + 1}`,
    agent,
    roles,
    arguments: ["--run", run, "--agent", agent, "--roles", roles.join(",")],
  }));
}

/**
 * Workers produce much short-lived garbage. A larger young generation copies less of it, and a single background thread does not compete
 * for another process's core: together they save a sixth of each worker's time. A large initial heap is not re-marked for every 30 MB
 * of arrays that an engine leaves behind, which saves a tenth of the time per step for a tenth more memory.
 */
const V8_FLAGS = ["--max-semi-space-size=32", "--initial-heap-size=128", "--v8-pool-size=1"];

/** The arguments of Node.js that run a module of this package as a process. */
export function nodeArguments(module: string): string[] {
  return [...V8_FLAGS, fileURLToPath(builtModule(module))];
}

export interface Workers {
  /** Rejects when a worker cannot be kept alive; never resolves. */
  readonly failed: Promise<never>;
  /** Tells the workers that the run advanced, so they check at once instead of at their next poll. */
  hint(): void;
  /** Stops the workers that do not evaluate: they have nothing left to do, and the evaluations need their memory. */
  finishTraining(): Promise<void>;
  stop(): Promise<void>;
}

/** Reads which rollouts are in flight according to the record of a worker. */
export type InFlightOf = (worker: string) => Promise<readonly string[]>;

export const inFlightIn =
  (table: Pick<Table, "get">, run: string): InFlightOf =>
  async (worker) => {
    const item = await table.get(tableKeys.worker(run, worker));
    return item ? parse(WorkerRecord, item, `WORKER ${worker}`).inFlight : [];
  };

export function startWorkers(
  specs: readonly WorkerSpec[],
  environment: Readonly<Record<string, string>>,
  logs: string,
  inFlightOf: InFlightOf,
): Workers {
  return new WorkerProcesses(specs, environment, logs, inFlightOf);
}

/** A worker's consecutive exits so far. All but the first came soon after the worker's start. */
interface Exits {
  readonly count: number;
  /** The rollout that ran alone at the last exit; undefined: none did, or it is not known. */
  readonly alone?: string | undefined;
}

class WorkerProcesses implements Workers {
  readonly failed: Promise<never>;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #logs: string;
  readonly #inFlightOf: InFlightOf;
  readonly #children = new Map<WorkerSpec, ChildProcess>();
  /** Pending restarts. */
  readonly #timers = new Set<NodeJS.Timeout>();
  #isWanted: (spec: WorkerSpec) => boolean = () => true;
  #fail: (error: MgrpoError) => void = () => {};

  constructor(
    specs: readonly WorkerSpec[],
    environment: Readonly<Record<string, string>>,
    logs: string,
    inFlightOf: InFlightOf,
  ) {
    this.#environment = environment;
    this.#logs = logs;
    this.#inFlightOf = inFlightOf;
    this.failed = new Promise<never>((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => {});
    for (const spec of specs) this.#startOrFail(spec, { count: 0 });
  }

  hint(): void {
    for (const { stdin } of this.#children.values()) if (stdin?.writable) stdin.write("\n");
  }

  finishTraining(): Promise<void> {
    return this.#stopUnless(({ roles }) => roles.includes("eval"));
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    await this.#stopUnless(() => false);
  }

  async #stopUnless(isWanted: (spec: WorkerSpec) => boolean): Promise<void> {
    this.#isWanted = isWanted;
    const unwanted = [...this.#children].filter(([spec]) => !isWanted(spec));
    await Promise.all(unwanted.map(([, child]) => stopChild(child)));
  }

  #start(spec: WorkerSpec, exits: Exits): void {
    const log = join(this.#logs, `${spec.name}.log`);
    // The user may have deleted it. Fails if the run's folder itself is gone, which must not appear again.
    if (!existsSync(this.#logs)) mkdirSync(this.#logs);
    const file = openSync(log, "a");
    const { size: logStart } = fstatSync(file);
    const started = performance.now();
    const child = spawn(process.execPath, [...nodeArguments("gpu-workers/worker"), ...spec.arguments], {
      env: { ...process.env, ...this.#environment, MGRPO_PARENT: "1", [RELEASE_VARIABLE]: release(process.env) },
      stdio: ["pipe", file, file],
      // In its own process group, so Ctrl-C does not reach it: this process drains it.
      detached: true,
    });
    closeSync(file);
    this.#children.set(spec, child);
    const onEnd = (how: string) => {
      this.#children.delete(spec);
      if (!this.#isWanted(spec)) return;
      const isQuick = performance.now() - started < QUICK_EXIT_MILLISECONDS;
      void this.#restart(spec, isQuick ? exits : { count: 0 }, how, { path: log, start: logStart });
    };
    // A child can exit while this process writes to it.
    child.stdin?.on("error", () => {});
    child.once("exit", (code, signal) => onEnd(`exit ${signal ?? code}`));
    // A process that failed to start never emits `exit`.
    child.once("error", (error) => child.pid === undefined && onEnd(error.message));
  }

  /** Restarts a worker after a delay, or gives up on it. @param before exits before this one. */
  async #restart(spec: WorkerSpec, before: Exits, how: string, log: WorkerLog): Promise<void> {
    const { reason, code } = endOf(log, how);
    const alone = await this.#aloneAtEnd(log);
    if (!this.#isWanted(spec)) return;
    const isSame = alone !== undefined && alone === before.alone;
    const count = before.count + (isSame ? 0 : 1);
    if (count >= MAX_EXITS || code === DISK_FULL) {
      const times = count === 1 ? "" : ` ${count} times in a row`;
      const message = `worker '${spec.name}' ended${times}: ${reason} (log: ${log.path})`;
      this.#fail(new MgrpoError("worker-unavailable", message));
      return;
    }
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        if (this.#isWanted(spec)) this.#startOrFail(spec, { count, alone });
      },
      100 * 2 ** count,
    );
    this.#timers.add(timer);
  }

  /** The rollout that a worker ran alone as it ended; undefined: none, or the store does not answer. */
  async #aloneAtEnd(log: WorkerLog): Promise<string | undefined> {
    const worker = registeredAs(log);
    const inFlight = worker === undefined ? [] : await this.#inFlightOf(worker).catch(() => []);
    return inFlight.length === 1 ? inFlight[0] : undefined;
  }

  /** Rejects `failed` instead of throwing: other workers may be running, and only `stop` ends them. */
  #startOrFail(spec: WorkerSpec, exits: Exits): void {
    try {
      this.#start(spec, exits);
    } catch (error) {
      const reason = errorText(error);
      this.#fail(new MgrpoError("worker-unavailable", `worker '${spec.name}' cannot be started: ${reason}`));
    }
  }
}

/** The end of a file, back to `start` at most. Empty if the file is gone. */
function tailOf(path: string, start: number): string {
  if (!existsSync(path)) return "";
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const from = Math.max(start, size - TAIL_BYTES);
    const end = Buffer.alloc(Math.max(0, size - from));
    readSync(file, end, 0, end.length, from);
    return end.toString("utf8");
  } finally {
    closeSync(file);
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const timer = setTimeout(() => child.kill("SIGKILL"), DRAIN_MILLISECONDS);
  // A second signal would end it without draining.
  if (!child.killed) child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

/** A log file, from the byte where this process's lines start. */
interface WorkerLog {
  readonly path: string;
  readonly start: number;
}

/**
 * Why a worker ended, and the code of its error. Workers log one JSON object per line; if an error ended the worker, the last line has it. Any
 * other such line does not explain the end: the worker was killed. Other text may, such as an error that Node.js printed, so it is quoted.
 */
function endOf({ path, start }: WorkerLog, how: string): { readonly reason: string; readonly code?: unknown } {
  const lines = tailOf(path, start)
    .split("\n")
    .filter((one) => one.trim() !== "");
  const line = lines.at(-1)?.startsWith("Node.js v") ? uncaught(lines) : (lines.at(-1) ?? "");
  const { level, error, code } = asObject(line);
  const [text = ""] = String(error ?? "").split("\n", 1);
  if (level === "error" && text !== "") return { reason: text, code };
  return { reason: level !== undefined || line === "" ? how : `${how}: ${line}` };
}

/** Node.js prints where an error was thrown, `^` below that place, the error and its stack, and last its version. */
function uncaught(lines: readonly string[]): string {
  const caret = lines.findLastIndex((line) => /^\s*\^+$/.test(line));
  const named = lines.findLast((line) => /^(?:Uncaught )?\w*Error\b/.test(line));
  return (caret >= 0 ? lines[caret + 1] : named) ?? lines.at(-1) ?? "";
}

/** The id under which a worker registered last, if the end of its log says so. */
function registeredAs({ path, start }: WorkerLog): string | undefined {
  const registered = tailOf(path, start)
    .split("\n")
    .map(asObject)
    .findLast(({ what }) => what === "registered")?.["worker"];
  return typeof registered === "string" ? registered : undefined;
}

/** Empty for a line that is not JSON, such as most output of a recipe's tool. */
const asObject = (line: string): Record<string, unknown> => Object(jsonOrUndefined(line));
