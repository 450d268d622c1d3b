/**
 * @file A team of three: a scripted main agent, and two sub-agents on the compiled engine, of different architectures (Qwen3, Llama) and
 * with different tokenizers, tools and limits. Each sub-agent is invoked by name, samples its own tokens, and trains and publishes its own
 * versions.
 */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { Invocation } from "../../core/contracts/rollout.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { tinyCheckpoint } from "../engine/tiny.ts";
import { qwen3Files } from "../fixtures/qwen3.ts";
import { baseFiles, scriptedEngine } from "../fixtures/relay/policy.ts";
import { follows } from "../fixtures/relay/questions.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { recordsOf, startRelay } from "../fixtures/relay/world.ts";
import { wordLevelFiles } from "../fixtures/tokenizers.ts";

const SUBS = ["searcher", "reader"] as const;
const small = { policy: "compiled", model: "tiny", engine: { slots: 4, microBatchTokens: 600, threads: 1 } };
const config = relayConfig({
  steps: 2,
  agents: {
    main: { ...relayConfig().agents["main"], delegates: SUBS },
    searcher: { ...small, tools: ["lookup"], limits: { turns: 2, turnTokens: 24, contextTokens: 600 } },
    reader: { ...small, limits: { turns: 1, turnTokens: 12, contextTokens: 300 } },
  },
});

const call = (agent: string) =>
  `<tool_call>${JSON.stringify({ name: "delegate", arguments: { agent, task: "find the capital of France" } })}</tool_call>`;
/** Delegates to both in parallel, then answers correctly half of the time, so that rewards differ within a group. */
const main = scriptedEngine((conversation, random) => {
  if (!conversation.includes("<|im_start|>tool\n")) return SUBS.map(call).join("\n");
  const [, word = ""] = /What follows (\w+)/.exec(conversation) ?? [];
  return `<answer>${random.uniform() < 0.5 ? follows(word) : "a guess"}</answer>`;
});

/** Replaces about half of the samples with an answer and the log-probs that the model assigns to it: tiny random models never answer. */
const withForcedAnswers: PolicyEngine = {
  ...compiledEngine,
  async openSampler(policy, options) {
    const [sampler, trainer] = await Promise.all([
      compiledEngine.openSampler(policy, options),
      compiledEngine.openTrainer(policy, options),
    ]);
    const tokenizer = openTokenizer(policy);
    const answer = [...tokenizer.encodeTemplate("<answer>Paris</answer>"), tokenizer.endOfTurn];
    return {
      ...sampler,
      async sample(request, signal) {
        if (stream("prompted", ...request.stream).uniform() < 0.5) return sampler.sample(request, signal);
        const [logProbs_T = []] = await trainer.logProbs(
          [[...request.tokens, ...answer]],
          request.sampling.temperature,
        );
        return { tokens: answer, logProbs: [...logProbs_T].slice(request.tokens.length), stop: "stop" };
      },
      close: async () => void (await Promise.all([sampler.close(), trainer.close()])),
    };
  },
};

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
  const { memory, work } = await startRelay(config, { filesOf: (agent) => new Map(files[agent]) });
  const engineOf = (policy: string) => (policy === "compiled" ? withForcedAnswers : main);
  const agents = ["main", ...SUBS];
  await Promise.all(agents.map((agent) => work({ agent }, { engineOf })));
  const invocations = await Promise.all(
    memory.objects
      .keys()
      .filter((key) => key.includes("/invocations/"))
      .map(async (key) => parseJson(Invocation, (await memory.objects.get(key)) ?? new Uint8Array(), key)),
  );
  return { records: await recordsOf(memory, config), invocations, keys: memory.objects.keys() };
}

test("two sub-agents of different architectures and tokenizers train in one team, reproducibly", {
  timeout: 240_000,
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
  for (const agent of ["main", ...SUBS])
    expect(records.weights[agent]?.at(-1), agent).not.toBe(records.weights[agent]?.[0]);
  expect((await run()).records).toEqual(records);
});
