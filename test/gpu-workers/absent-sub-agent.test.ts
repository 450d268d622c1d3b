/** @file An attempt records which sub-agents it waits for; a rollout that waits for one without a worker is retried until there is one. */
import { expect, test, vi } from "vitest";
import type { TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import { drainWorker } from "../../core/training/writes.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { Attempt } from "../../gpu-workers/gateway/attempt.ts";
import { LimitReached } from "../../gpu-workers/gateway/limit-reached.ts";
import type { SubAgent } from "../../gpu-workers/gateway/sub-agents.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { HostedAgent } from "../../gpu-workers/rollouts/agent.ts";
import { nativeAttempts } from "../../gpu-workers/rollouts/native-attempt.ts";
import type { Lease, PolicyVersions } from "../../gpu-workers/rollouts/policy-versions.ts";
import { tokenBackend } from "../../gpu-workers/rollouts/token-backend.ts";
import { type RunContext, readRunContext } from "../../gpu-workers/run-context.ts";
import { callText, script } from "../fakes/conversations.ts";
import { scriptedSampler } from "../fakes/scripted-sampler.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { openRun, startWorker } from "../fixtures/relay/world.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";
import { planOf } from "./gateway/harness.ts";

const never = new AbortController().signal;

test("a rollout that waits for a sub-agent without a worker is retried until there is one, and is not lost", {
  timeout: 60_000,
}, async () => {
  const failed: string[] = [];
  const log = createLog((line) => {
    const { what, rollout } = JSON.parse(line);
    if (what === "attempt failed") failed.push(rollout);
  });
  const changes = {
    ...{ steps: 1, evaluation: { suites: [] }, limits: { attempts: 2, rolloutSeconds: 1 } },
    liveness: { heartbeatSeconds: 0.05, leaseSeconds: 60, pollSeconds: 0.02 },
  };
  const { config, store } = await openRun(log, changes);
  const { release } = await readRunContext(config.run, "0.0.0", store, log);
  const searcher = WorkerRecord.parse({
    ...{ run: config.run, worker: "s", agent: "searcher", roles: ["rollout"], url: "http://127.0.0.1:2/s" },
    ...{ state: "alive", counter: 1, seenCounter: 1, seenAt: 0, release, inFlight: [] },
  });
  await store.table.insert(tableKeys.worker(config.run, "s"), { ...searcher });
  const group = async () => GroupRecord.parse(await store.table.get(tableKeys.group(config.run, 0, 0)));
  const main = startWorker(store, config.run, {}, never, log);
  await vi.waitFor(async () => expect((await group()).claims).toBeDefined(), 20_000);
  await store.table.update(drainWorker(config.run, "s"));
  // The step has four rollouts, so five failures mean that one of them has failed limits.attempts times.
  await vi.waitFor(() => expect(failed.length).toBeGreaterThan(4), 40_000);
  await Promise.all([main, startWorker(store, config.run, { agent: "searcher" }, never, log)]);
  for (const score of Object.values((await group()).rollouts)) expect(score).not.toHaveProperty("excluded");
});

test("a conversation's delegations are listed as unanswered until they have a report; one that fails stays listed", async () => {
  const config = relayConfig();
  const tokenizer = openTokenizer(bpeFiles());
  const ask = (task: string) => callText("delegate", { agent: "searcher", task });
  const sampler = scriptedSampler(tokenizer, script(ask("first"), ask("second") + ask("third")));
  const lease: Partial<Lease> = { backend: (options) => tokenBackend(options, tokenizer, sampler), release() {} };
  const main = {
    ...{ name: "main", config: config.agents["main"], tools: new Map(), draws: "place" },
    policy: { acquire: async () => lease } as unknown as PolicyVersions,
  } as unknown as HostedAgent;
  const invoke: Delegation["invoke"] = async (id, { agent, task }) => {
    if (task === "third") throw new MgrpoError("deadline", "late");
    if (task === "second") return new Promise<never>(() => {});
    return { ref: { id, agent, key: "k", sha256: "0".repeat(64) }, answer: "birch" };
  };
  const unanswered = new Map<string, string>();
  const attempt = nativeAttempts({ run: { config } as RunContext, main, delegation: { invoke } });
  await expect(attempt({ ...planOf(0), unanswered }, never)).rejects.toThrow("late");
  expect([...unanswered]).toEqual([
    ["1", "searcher"],
    ["2", "searcher"],
  ]);
});

test("an app's requests to sub-agents, not to the main agent, are listed as unanswered until they are answered or refused, or reach a limit; one that fails stays listed", async () => {
  const unanswered = new Map<string, string>();
  const answers: ((reply: TurnReply | Promise<never>) => void)[] = [];
  const turn = () => new Promise<TurnReply>((resolve) => answers.push(resolve));
  const team = {
    main: { name: "main", sessions: { turn } },
    subs: new Map([["searcher", { turn } as Partial<SubAgent>]]),
  };
  const attempt = new Attempt("a", team as never, { ...planOf(0), unanswered });
  const ask = (agent: string, content: string) =>
    attempt.turn(agent, { messages: [{ role: "user", text: content }] } as Partial<TurnRequest> as TurnRequest, never);
  const [toMain, answered, failed] = [ask("main", "a"), ask("searcher", "a"), ask("searcher", "b")];
  const limited = ask("searcher", "c");
  const refused = ask("searcher", "d");
  expect([...unanswered.values()]).toEqual(["searcher", "searcher", "searcher", "searcher"]);
  answers[0]?.({} as TurnReply);
  answers[1]?.({} as TurnReply);
  answers[2]?.(Promise.reject(new MgrpoError("deadline", "late")));
  answers[3]?.(Promise.reject(new LimitReached("turn-limit", "too many turns")));
  answers[4]?.(Promise.reject(new MgrpoError("request-refused", "no such model")));
  await Promise.all([
    toMain,
    answered,
    expect(failed).rejects.toThrow("late"),
    expect(limited).rejects.toThrow("too many turns"),
    expect(refused).rejects.toThrow("no such model"),
  ]);
  expect([...unanswered.values()]).toEqual(["searcher"]);
});
