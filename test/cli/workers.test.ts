/** @file The worker processes of a local run: which are restarted or stopped, and the error for one that cannot be kept alive. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { inFlightIn, startWorkers } from "../../cli/local/workers.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { WorkerRecord } from "../../core/contracts/records.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-workers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let pump: NodeJS.Timeout;
beforeEach(() => {
  // Every exit is quick, however long a process takes to start.
  vi.spyOn(performance, "now").mockReturnValue(0);
  // No pause before a restart.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  pump = setInterval(() => vi.runOnlyPendingTimers(), 10);
});
afterEach(() => {
  clearInterval(pump);
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Starts a worker that refuses its arguments. */
function startBroken(logs: string, environment: Readonly<Record<string, string>> = {}, { table } = memoryStore()) {
  const spec = { name: "w", agent: "main", roles: ["train"], arguments: ["--nonsense"] } as const;
  return startWorkers([spec], environment, logs, inFlightIn(table, "r"));
}

const FAULT = /^worker 'w' ended 5 times in a row: .*--nonsense.* \(log: .*w\.log\)$/;

test("a worker that ends is restarted even if its log was deleted, or is too large to read whole", async () => {
  const [deleted, large] = [join(folder, "deleted"), join(folder, "large")];
  const first = startBroken(deleted);
  rmSync(deleted, { recursive: true });
  mkdirSync(large);
  writeFileSync(join(large, "w.log"), "");
  truncateSync(join(large, "w.log"), 2 ** 31 + 1);
  const second = startBroken(large);
  await expect(first.failed).rejects.toThrow(FAULT);
  await expect(second.failed).rejects.toThrow(FAULT);
  expect(existsSync(join(deleted, "w.log"))).toBe(true);
});

test.each([
  ["was killed", '{"level":"info","what":"registered"}', 'process.kill(process.pid, "SIGKILL")', "exit SIGKILL"],
  ["exited", "out of memory", "process.exit(3)", "exit 3: out of memory"],
  ["threw an error", "a tool's output", 'throw new TypeError("no such key")', "exit 1: TypeError: no such key"],
  [
    "threw an error with another name",
    "Error: logged",
    'throw Object.assign(new Error("late"), { name: "Failure" })',
    "exit 1: Failure: late",
  ],
  ["threw text", "Error: logged", 'throw "no such key"', "exit 1: no such key"],
])("the error for a worker that %s, and logged no error, says how it ended", async (what, line, end, reason) => {
  const name = what.replaceAll(" ", "-");
  const preload = join(folder, `${name}.cjs`);
  writeFileSync(preload, `require("node:fs").writeSync(2, ${JSON.stringify(`${line}\n`)});\n${end};\n`);
  const { failed } = startBroken(join(folder, name), { NODE_OPTIONS: `--require=${preload}` });
  await expect(failed).rejects.toThrow(`worker 'w' ended 5 times in a row: ${reason} (log: `);
});

test("if a worker cannot be started, stop() still ends those started before it", async () => {
  const logs = join(folder, "no-log");
  mkdirSync(join(logs, "b.log"), { recursive: true });
  const preload = join(folder, "waiting.cjs");
  const started = join(folder, "waiting");
  const idle = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
  writeFileSync(
    preload,
    `require("node:fs").writeFileSync(${JSON.stringify(started)}, String(process.pid));\n${idle}\n`,
  );
  const specs = ["a", "b"].map((name) => ({ name, agent: "main", roles: ["train"] as const, arguments: [] }));
  const environment = { NODE_OPTIONS: `--require=${preload}` };
  const workers = startWorkers(specs, environment, logs, inFlightIn(memoryStore().table, "r"));
  await expect(workers.failed).rejects.toThrow(/^worker 'b' cannot be started: EISDIR/);
  const pid = () => (existsSync(started) ? Number(readFileSync(started, "utf8")) : 0);
  await expect.poll(pid).toBeGreaterThan(0);
  await workers.stop();
  expect(() => process.kill(pid(), 0)).toThrow("ESRCH");
});

test("exits in a row while the same rollout runs alone count as one: a worker outlives two rollouts that are abandoned", async () => {
  const store = memoryStore();
  // The first worker had nothing in flight, the second two rollouts. A rollout is abandoned after three crashes while it runs alone.
  const inFlight = [[], ["a", "b"], ["a"], ["a"], ["a"], ["b"], ["b"], ["b"], ["c"], ["d"]];
  for (const [n, names] of inFlight.entries()) {
    const record = WorkerRecord.parse({
      ...{ run: "r", worker: `main-${n}`, agent: "main", roles: ["train"], url: "", state: "alive" },
      ...{ counter: 0, seenCounter: -1, seenAt: 0, release: "r", inFlight: names },
    });
    await store.table.insert(tableKeys.worker("r", record.worker), record);
  }
  const exits = join(folder, "exits");
  mkdirSync(exits);
  const preload = join(folder, "deadly.cjs");
  writeFileSync(
    preload,
    `const fs = require("node:fs");
    const exits = ${JSON.stringify(exits)};
    const worker = "main-" + fs.readdirSync(exits).length;
    fs.writeFileSync(exits + "/" + worker, "");
    fs.writeSync(2, JSON.stringify({ level: "info", what: "registered", worker }) + "\\n");
    process.kill(process.pid, "SIGKILL");`,
  );
  const { failed } = startBroken(join(folder, "alone"), { NODE_OPTIONS: `--require=${preload}` }, store);
  await expect(failed).rejects.toThrow("worker 'w' ended 5 times in a row: exit SIGKILL (log: ");
  // Five count: nothing, both, 'a', 'b' and 'c'.
  expect(readdirSync(exits)).toHaveLength(9);
});

test("once training is finished, workers that do not evaluate are stopped, and one that does is still kept alive", async () => {
  const preload = join(folder, "idle.cjs");
  const started = join(folder, "started");
  const line = 'process.argv.at(-1) + " " + process.pid + "\\n"';
  const idle = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
  writeFileSync(preload, `require("node:fs").appendFileSync(${JSON.stringify(started)}, ${line});\n${idle}\n`);
  const specs = (["train", "eval"] as const).map((role) => ({
    name: role,
    agent: "main",
    roles: [role],
    arguments: [role],
  }));
  const environment = { NODE_OPTIONS: `--require=${preload}` };
  const workers = startWorkers(specs, environment, join(folder, "finished"), inFlightIn(memoryStore().table, "r"));
  const pids = (role: string) =>
    (existsSync(started) ? readFileSync(started, "utf8").split("\n") : [])
      .filter((one) => one.startsWith(role))
      .map((one) => Number(one.split(" ")[1]));
  await expect.poll(() => [pids("train").length, pids("eval").length]).toEqual([1, 1]);
  await workers.finishTraining();
  expect(() => process.kill(pids("train")[0] ?? 0, 0)).toThrow("ESRCH");
  process.kill(pids("eval")[0] ?? 0, "SIGKILL");
  await expect.poll(() => pids("eval").length).toBe(2);
  await workers.stop();
  expect(pids("train")).toHaveLength(1);
});
