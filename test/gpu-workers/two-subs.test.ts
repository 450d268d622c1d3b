/**
 * @file A team of three: a scripted main agent, and two sub-agents on the compiled engine, of different architectures (Qwen3, Llama) and
 * with different tokenizers, tools and limits. Each is asked by its name, speaks in its own tokens and publishes its own versions.
 */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { Invocation } from "../../core/contracts/rollout.ts";
import { compiledEngine } from "../../gpu-workers/engines/compiled/engine.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { openTokenizer } from "../../gpu-workers/rollouts/tokenizer.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { qwen3Files } from "../fixtures/qwen3.ts";
import { baseFiles, scriptedEngine } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";
import { wordLevelFiles } from "../fixtures/tokenizers.ts";
import { tinyCheckpoint } from "./engines/tiny.ts";

const SUBS = ["searcher", "reader"] as const;
const small = { policy: "compiled", model: "tiny", engine: { slots: 4, microBatchTokens: 600, threads: 1 } };
const config = relayConfig({
  steps: 2,
  agents: {
    main: { ...relayConfig().agents["main"], delegates: SUBS },
    searcher: { ...small, tools: ["lookup"], limits: { turns: 2, turnTokens: 6, contextTokens: 600 } },
    reader: { ...small, limits: { turns: 1, turnTokens: 9, contextTokens: 300 } },
  },
});

const call = (agent: string) =>
  `<tool_call>${JSON.stringify({ name: "delegate", arguments: { agent, task: "find the capital of France" } })}</tool_call>`;
/** Both are asked, side by side; then it guesses. */
const main = scriptedEngine((conversation, random) =>
  conversation.includes("<|im_start|>tool\n")
    ? `<answer>${random.uniform() < 0.5 ? "birch" : "cedar"}</answer>`
    : SUBS.map(call).join("\n"),
);

const files: Record<string, ReadonlyMap<string, Uint8Array>> = {
  main: baseFiles("main"),
  searcher: qwen3Files(1),
  reader: new Map([...llama(), ...wordLevelFiles()]),
};

function llama(): ReadonlyMap<string, Uint8Array> {
  const shape = { layers: 2, width: 24, heads: 3, kvHeads: 3, headWidth: 8, ffnWidth: 32, vocabulary: 256 };
  const kind = { tied: false, queryKeyNorm: false, projectionBias: false, ropeScaling: null };
  return tinyCheckpoint({ ...shape, ...kind, ropeTheta: 1e4, epsilon: 1e-5 }, 2, 600);
}

async function run() {
  const log = createLog(() => {});
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(memory, () => functions, log);
  await begin(store, functions, config, (agent) => new Map(files[agent]));
  const never = new AbortController().signal;
  const engineOf = (policy: string) => (policy === "compiled" ? compiledEngine : main);
  const agents = ["main", ...SUBS];
  await Promise.all(agents.map((agent) => startWorker(store, config.run, { agent }, never, log, { engineOf })));
  const invocations = await Promise.all(
    memory.objects
      .keys()
      .filter((key) => key.includes("/invocations/"))
      .map(async (key) => parseJson(Invocation, (await memory.objects.get(key)) ?? new Uint8Array(), key)),
  );
  return { records: await recordsOf(memory, config), invocations, keys: memory.objects.keys() };
}

test("two sub-agents of different architectures and tokenizers in one team, the same twice", {
  timeout: 60_000,
}, async () => {
  const { records, invocations, keys } = await run();
  expect(records).toMatchObject({ status: "finished", steps: [{ state: "closed" }, { state: "closed" }] });
  for (const agent of SUBS) {
    const own = invocations.filter(({ request }) => request.agent === agent);
    expect(own, agent).toHaveLength(config.steps * config.questionsPerStep * config.rolloutsPerQuestion);
    const tokenizer = openTokenizer(files[agent] ?? new Map());
    for (const { trajectory } of own) {
      if (!("tokens" in trajectory)) throw new Error("no tokens");
      expect(tokenizer.decode(trajectory.tokens)).toContain("find the capital of France");
    }
    expect(keys).toContain(objectKeys.manifest(config.run, agent, config.steps));
  }
  const scores = records.steps.flatMap(({ groups }) => groups.flatMap(({ rollouts }) => Object.values(rollouts)));
  for (const score of scores) expect(score).toMatchObject({ invocations: { searcher: [{}], reader: [{}] } });
  expect((await run()).records).toEqual(records);
});
