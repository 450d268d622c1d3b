/** @file Records of dead workers are moved to the past workers of a run: which, when, and that every heartbeat counts once, wherever a tick stops. */
import { expect, test } from "vitest";
import { tableKeys, tablePrefixes } from "../../../core/contracts/keys.ts";
import { type GroupRecord, type JobRecord, RunRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { NO_API_SPENDING } from "../../../core/training/api-spending.ts";
import { allHeartbeats, movePastWorkers, type WorkerUses } from "../../../core/training/past-workers.ts";
import { CONVERSATION_DAYS } from "../../../core/training/retention.ts";
import { spending } from "../../../core/training/run-budget.ts";
import type { StoreCommand } from "../../../core/training/store-commands.ts";
import { memoryTable } from "../../fakes/memory-store.ts";
import { runRecord, teamConfig } from "../../fakes/scripted-team.ts";

const HOUR = 3_600_000;
const NOW = 10 * HOUR;
const unused: WorkerUses = { groups: [], agents: [], jobs: [] };

const worker = (name: string, part: Partial<WorkerRecord> = {}): WorkerRecord => ({
  ...{ run: "test", worker: name, agent: "main", roles: ["rollout"], url: "", state: "dead", release: "1" },
  ...{ counter: 10, seenCounter: 10, seenAt: NOW - HOUR - 1, inFlight: [] },
  ...part,
});
const alive = (name: string, part: Partial<WorkerRecord> = {}) => worker(name, { state: "alive", ...part });

/** The workers that a tick moves. */
const moved = (workers: readonly WorkerRecord[], uses: Partial<WorkerUses> = {}) => {
  const [insertion] = movePastWorkers(runRecord(), workers, { ...unused, ...uses }, NOW);
  return insertion?.kind === "insert" ? insertion.items.map(({ item }) => item["worker"]) : [];
};

test("a worker that has been dead for more than an hour is moved once another serves its agent", () => {
  const [gone, next] = [worker("gone"), alive("next")];
  expect(moved([gone, next])).toEqual(["gone"]);
  // Most ticks have nothing to move, and write nothing.
  expect(movePastWorkers(runRecord(), [gone], unused, NOW)).toEqual([]);
  expect(moved([gone, worker("next")])).toEqual([]);
  expect(moved([gone, alive("next", { agent: "searcher" })])).toEqual([]);
  expect(moved([worker("gone", { seenAt: NOW - HOUR }), next])).toEqual([]);
  // Tick has not seen its last heartbeat.
  expect(moved([worker("gone", { counter: 11 }), next])).toEqual([]);
  expect(moved([worker("gone", { state: "draining" }), next])).toEqual([]);
});

test("a worker that still holds a claim, an agent's training or a job is not moved", () => {
  const workers = [worker("gone"), alive("next")];
  const group = {
    rolloutsPerQuestion: 2,
    claims: { "0": "gone", "1": "next" },
    rollouts: {},
  } as unknown as GroupRecord;
  expect(moved(workers, { groups: [group] })).toEqual([]);
  expect(moved(workers, { groups: [{ ...group, rollouts: { "0": { excluded: "x" } } }] })).toEqual(["gone"]);
  const agent = { run: "test", agent: "main", version: 3, trainer: "gone", fence: 9, takeovers: 0 };
  expect(moved(workers, { agents: [agent] })).toEqual([]);
  expect(moved(workers, { jobs: [{ owner: "gone" } as JobRecord] })).toEqual([]);
});

test("one move takes at most twenty workers, so that RUN stays small", () => {
  const many = Array.from({ length: 50 }, (_, i) => worker(`gone-${i}`));
  expect(moved([...many, alive("next")])).toHaveLength(20);
});

class TickDied extends Error {}

/** Executes the commands of one tick, which dies after `limit` writes. Calls `look` after each write. */
async function tick(table: ReturnType<typeof memoryTable>, limit: number, look: () => Promise<void>) {
  let writes = 0;
  const write = async (change: () => Promise<unknown>) => {
    if (writes++ >= limit) throw new TickDied();
    await change();
    await look();
  };
  const execute = async (commands: readonly StoreCommand[]): Promise<void> => {
    for (const command of commands) {
      if (command.kind === "insert")
        for (const { key, item } of command.items) await write(() => table.insert(key, item));
      if (command.kind === "delete-item") await write(() => table.delete(command.key));
      if (command.kind !== "update") continue;
      let applied = false;
      await write(async () => {
        ({ applied } = await table.update(command.change));
      });
      if (applied) await execute(command.then ?? []);
    }
  };
  const { record, workers } = await read(table);
  await execute(movePastWorkers(record, workers, unused, NOW)).catch((error: unknown) => {
    if (!(error instanceof TickDied)) throw error;
  });
}

async function read(table: ReturnType<typeof memoryTable>) {
  const record = RunRecord.parse(await table.get(tableKeys.run("test")));
  const items = await table.query(tableKeys.run("test").pk, tablePrefixes.workers);
  return { record, workers: items.map((item) => WorkerRecord.parse(item)) };
}

test("every heartbeat counts once at any time, wherever ticks stop; in the end, 45 workers have been moved", async () => {
  for (const limit of [1, 2, 5, 21, 30, 100]) {
    const table = memoryTable();
    await table.insert(tableKeys.run("test"), runRecord());
    const dead = Array.from({ length: 45 }, (_, i) =>
      worker(`w${String(i).padStart(2, "0")}`, { counter: i, seenCounter: i }),
    );
    for (const one of [...dead, alive("next", { counter: 7 }), alive("eval", { agent: "*", counter: 3 })])
      await table.insert(tableKeys.worker("test", one.worker), one);
    // 0 + 1 + ... + 44 = 990, and 7.
    const look = async () => {
      const { record, workers } = await read(table);
      expect(allHeartbeats(record, workers)).toEqual({ main: 997, "*": 3 });
    };
    // A tick that dies this early repeats the same inserts: the next one has to get further.
    for (let i = 0; i < 60; i++) await tick(table, limit + i, look);
    const { record, workers } = await read(table);
    expect(workers.map((one) => one.worker)).toEqual(["eval", "next"]);
    expect(record.past).toMatchObject({ moves: 3, heartbeats: { main: 990 } });
    const past = await table.query(tableKeys.run("test").pk, tablePrefixes.past);
    expect(past).toHaveLength(45);
    expect(past[0]?.["expiresAt"]).toBe(NOW / 1000 + CONVERSATION_DAYS * 86_400);
    const config = teamConfig({
      budget: { usd: 9, usdPerWorkerHour: { "*": 1 } },
      liveness: { heartbeatSeconds: 3.6, leaseSeconds: 20 },
    });
    expect(spending(config, record, workers, NO_API_SPENDING, NOW)).toMatchObject({ workerHours: 1, usd: 1 });
  }
});

test("a move adds an entry for the heartbeats of another agent", () => {
  const before = runRecord({ past: { moves: 1, heartbeats: { main: 5 }, newest: [] } });
  const builders = [worker("gone", { agent: "builder" }), alive("next", { agent: "builder" })];
  const [, move] = movePastWorkers(before, builders, unused, NOW);
  const past = { moves: 2, heartbeats: { main: 5, builder: 10 }, newest: ["gone"] };
  expect(move).toMatchObject({ change: { set: [[["past"], past]] } });
  // 25 heartbeats, 360 s apart.
  const config = teamConfig({
    budget: { usd: 9, usdPerWorkerHour: { "*": 2 } },
    liveness: { heartbeatSeconds: 360, leaseSeconds: 2000 },
  });
  expect(spending(config, before, builders, NO_API_SPENDING, NOW)).toMatchObject({ workerHours: 2.5, usd: 5 });
});

test("if two ticks move the same workers at once, only one counts them", async () => {
  const [, command] = movePastWorkers(runRecord(), [worker("gone"), alive("next")], unused, NOW);
  if (command?.kind !== "update") throw new Error("no update");
  const table = memoryTable();
  await table.insert(tableKeys.run("test"), runRecord());
  expect(await table.update(command.change)).toMatchObject({ applied: true });
  const past = { moves: 1, heartbeats: { main: 10 }, newest: ["gone"] };
  expect(await table.update(command.change)).toMatchObject({ applied: false, item: { past } });
});
