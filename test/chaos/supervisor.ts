/**
 * @file Starts the processes of a trial and restarts those that die. As the schedule says, it kills or stops processes at given requests or
 * times, and stops all of them while the machine sleeps.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { End, Strike } from "./history.ts";
import type { Death, Sleep } from "./schedule.ts";

export interface ProcessSpec {
  readonly name: string;
  /** Module and arguments. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** After this many short lives in a row, a process is crash-looping. */
const MAX_SHORT_LIVES = 40;
const SHORT_LIFE_SECONDS = 10;
export const RESTART_MS = 100;
/** How long a sleep stops the processes, in real time. The store's clock jumps ahead by the minutes of the sleep. */
const SLEEP_SECONDS = 2;

export interface SupervisorOptions {
  readonly deaths: readonly Death[];
  readonly sleeps: readonly Sleep[];
  /** Called while all processes are stopped. */
  readonly onSleep: (minutes: number) => void;
  /** Milliseconds since the trial began. */
  readonly now: () => number;
  /** Receives what the processes write to stderr. */
  readonly log: (line: string) => void;
}

interface Supervised {
  readonly spec: ProcessSpec;
  child: ChildProcess;
  starts: number;
  startedAt: number;
  /** Short lives in a row, up to its last exit. */
  shortLives: number;
  requests: number;
  /** It has exited with code 0. */
  done: boolean;
}

export class Supervisor {
  readonly #processes = new Map<string, Supervised>();
  readonly #options: SupervisorOptions;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** In order. */
  readonly strikes: Strike[] = [];
  /** In order. */
  readonly ends: End[] = [];
  #isOver = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    for (const sleep of options.sleeps) this.#later(() => this.#sleep(sleep), sleep.atSeconds * 1000);
  }

  start(spec: ProcessSpec): void {
    const startedAt = this.#options.now();
    const started = { spec, child: this.#spawn(spec), starts: 1, startedAt, shortLives: 0, requests: 0, done: false };
    this.#processes.set(spec.name, started);
    for (const death of this.#options.deaths)
      if (death.process === spec.name && "atSeconds" in death)
        this.#later(() => this.#strike(started, death), death.atSeconds * 1000);
  }

  isDone(name: string): boolean {
    return this.#processes.get(name)?.done ?? false;
  }

  /** The name of a process that is crash-looping. */
  get crashLooping(): string | undefined {
    return [...this.#processes.values()].find(isCrashLooping)?.spec.name;
  }

  /** Of the processes that run. */
  pids(): Map<string, number> {
    const running = [...this.#processes.values()].filter(({ child }) => isRunning(child));
    return new Map(running.flatMap(({ spec, child: { pid } }) => (pid === undefined ? [] : [[spec.name, pid]])));
  }

  starts(): Record<string, number> {
    return Object.fromEntries([...this.#processes].map(([name, { starts }]) => [name, starts]));
  }

  /** Called before each request of a process. What it returns is called when the request is over. A process can die at both points. */
  onRequest(name: string): () => void {
    const found = this.#processes.get(name);
    if (!found) return () => {};
    const request = found.requests++;
    this.#strikeAt(found, request, "before");
    return () => this.#strikeAt(found, request, "after");
  }

  async killAll(): Promise<void> {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const children = [...this.#processes.values()].map(({ child }) => child).filter(isRunning);
    const ended = children.map((child) => once(child, "exit"));
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(ended);
  }

  #strikeAt(found: Supervised, request: number, when: "before" | "after"): void {
    const { name } = found.spec;
    const isDue = (one: Death) => "when" in one && one.process === name && one.request === request && one.when === when;
    const death = this.#options.deaths.find(isDue);
    if (death) this.#strike(found, death);
  }

  #strike({ spec: { name }, child }: Supervised, { signal, seconds }: Pick<Death, "signal" | "seconds">): void {
    if (!isRunning(child)) return;
    this.strikes.push({ process: name, signal, seconds, at: this.#options.now() });
    if (signal === "kill") {
      child.kill("SIGKILL");
      return;
    }
    child.kill("SIGSTOP");
    this.#later(() => child.kill("SIGCONT"), seconds * 1000);
  }

  #sleep({ minutes }: Sleep): void {
    for (const found of this.#processes.values()) this.#strike(found, { signal: "stop", seconds: SLEEP_SECONDS });
    this.#options.onSleep(minutes);
  }

  #spawn({ name, command, environment }: ProcessSpec): ChildProcess {
    const child = spawn(process.execPath, [...command], {
      env: { ...process.env, NODE_NO_WARNINGS: "1", ...environment },
      stdio: ["ignore", "ignore", "pipe"],
    });
    if (child.stderr) createInterface(child.stderr).on("line", (line) => this.#options.log(`${name}: ${line}`));
    child.once("exit", (code) => this.#exited(name, code));
    return child;
  }

  #exited(name: string, code: number | null): void {
    const found = this.#processes.get(name);
    if (!found || this.#isOver) return;
    found.done = code === 0;
    const lifeSeconds = (this.#options.now() - found.startedAt) / 1000;
    found.shortLives = !found.done && lifeSeconds < SHORT_LIFE_SECONDS ? found.shortLives + 1 : 0;
    if (!found.done) this.ends.push({ process: name, at: this.#options.now() });
    if (found.done || isCrashLooping(found)) return;
    this.#later(() => {
      found.startedAt = this.#options.now();
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

const isCrashLooping = ({ shortLives }: Supervised) => shortLives >= MAX_SHORT_LIVES;

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;
