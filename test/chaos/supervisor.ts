/** @file Starts the processes of a trial, starts them again when they die, and kills or stops them as the schedule says. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Death } from "./schedule.ts";

export interface ProcessSpec {
  readonly name: string;
  /** Module and arguments. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Started more often than this, a process cannot stay alive. */
const MAX_STARTS = 40;
const RESTART_MS = 100;

interface Supervised {
  readonly spec: ProcessSpec;
  child: ChildProcess;
  starts: number;
  requests: number;
  /** Code 0: it has done its work. */
  done: boolean;
}

export class Supervisor {
  readonly #processes = new Map<string, Supervised>();
  readonly #deaths: readonly Death[];
  readonly #log: (line: string) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** The deaths that happened, in order. */
  readonly died: Death[] = [];
  #isOver = false;

  constructor(deaths: readonly Death[], log: (line: string) => void) {
    this.#deaths = deaths;
    this.#log = log;
  }

  start(spec: ProcessSpec): void {
    this.#processes.set(spec.name, { spec, child: this.#spawn(spec), starts: 1, requests: 0, done: false });
  }

  isDone(name: string): boolean {
    return this.#processes.get(name)?.done ?? false;
  }

  /** A process that was started too often. */
  get unstable(): string | undefined {
    return [...this.#processes.values()].find(({ starts }) => starts > MAX_STARTS)?.spec.name;
  }

  starts(): Record<string, number> {
    return Object.fromEntries([...this.#processes].map(([name, { starts }]) => [name, starts]));
  }

  /** Called before each request of a process: it may die here. Returns what to call after the answer: it may die there. */
  onRequest(name: string): () => void {
    const found = this.#processes.get(name);
    if (!found) return () => {};
    const request = found.requests++;
    this.#strike(found, request, "before");
    return () => this.#strike(found, request, "after");
  }

  async stopAll(): Promise<void> {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const children = [...this.#processes.values()].map(({ child }) => child).filter(isRunning);
    const ended = children.map((child) => once(child, "exit"));
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(ended);
  }

  #strike({ spec, child }: Supervised, request: number, when: Death["when"]): void {
    const death = this.#deaths.find((one) => one.process === spec.name && one.request === request && one.when === when);
    if (!death || !isRunning(child)) return;
    this.died.push(death);
    if (death.signal === "kill") {
      child.kill("SIGKILL");
      return;
    }
    child.kill("SIGSTOP");
    this.#later(() => child.kill("SIGCONT"), death.seconds * 1000);
  }

  #spawn({ name, command, environment }: ProcessSpec): ChildProcess {
    const child = spawn(process.execPath, [...command], {
      env: { ...process.env, NODE_NO_WARNINGS: "1", ...environment },
      stdio: ["ignore", "ignore", "pipe"],
    });
    if (child.stderr) createInterface(child.stderr).on("line", (line) => this.#log(`${name}: ${line}`));
    child.once("exit", (code) => this.#exited(name, code));
    return child;
  }

  #exited(name: string, code: number | null): void {
    const found = this.#processes.get(name);
    if (!found || this.#isOver) return;
    found.done = code === 0;
    if (found.done || found.starts > MAX_STARTS) return;
    this.#later(() => {
      found.child = this.#spawn(found.spec);
      found.starts += 1;
    }, RESTART_MS);
  }

  #later(run: () => void, milliseconds: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, milliseconds);
    this.#timers.add(timer);
  }
}

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;
