/** @file Conversations: calls and their responses, limits, template drift, and infrastructure failures. */
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Sampler, Tool } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { NO_REPORT } from "../../gpu-workers/rollouts/answer-calls.ts";
import { address, callText, play, playOn, reporting, script, searchTool } from "../fakes/conversations.ts";
import { scriptedSampler } from "../fakes/scripted-sampler.ts";
import { bpeFiles, TERSE_TEMPLATE } from "../fixtures/tokenizers.ts";

const bpe = openTokenizer(bpeFiles());

test("delegations of a turn run in parallel; responses keep the order of the calls", async () => {
  const waiting: (() => void)[] = [];
  const delegate = reporting(async (agent, task) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      // All three have started before any ends; the last ends first.
      if (waiting.length === 3) for (const go of waiting.toReversed()) go();
    });
    return `${agent} ${task}`;
  });
  const ask = (agent: string, task: string) => callText("delegate", { agent, task });
  const turns = script(
    ask("b", "x") + ask("a", "y") + callText("search", { query: "z" }) + ask("b", "w"),
    ask("a", "v"),
    "<answer>done</answer>",
  );
  const { conversation, invocations } = await play(bpe, turns, {
    delegate: (delegated, signal) =>
      delegated.call < 3 ? delegate(delegated, signal) : reporting(() => "late")(delegated, signal),
  });
  expect(conversation.turns[0]?.responses.map(({ name, text }) => [name, text])).toEqual([
    ["delegate", "b x"],
    ["delegate", "a y"],
    ["search", "found z"],
    ["delegate", "b w"],
  ]);
  expect(invocations.map(({ key, agent }) => [key, agent])).toEqual([
    ["k0", "b"],
    ["k1", "a"],
    ["k2", "b"],
    ["k3", "a"],
  ]);
  expect(conversation.turns[0]?.responses[2]?.invocation).toBeUndefined();
  expect(conversation.turns[1]?.responses[0]?.invocation).toBe("0000000000000000000003");
});

test("if a sub-agent ends without an answer, the main agent reads that there is no report, and continues", async () => {
  const { conversation } = await play(
    bpe,
    script(callText("delegate", { agent: "a", task: "x" }), "<answer>b</answer>"),
    {
      delegate: reporting(() => null),
    },
  );
  expect(conversation).toMatchObject({ stop: "answered", turns: [{ responses: [{ text: NO_REPORT }] }, {}] });
});

test("closed book: tools do not run, and their responses are empty; delegations run", async () => {
  const tools = searchTool(() => {
    throw new Error("the book is closed");
  });
  const calls = callText("search", { query: "x" }) + callText("delegate", { agent: "a", task: "y" });
  const { conversation } = await play(bpe, script(calls, "<answer>z</answer>"), { tools, closedBook: true });
  expect(conversation.turns[0]?.responses.map(({ text }) => text)).toEqual(["", "a did y"]);
});

test("a tool call's maximum cost is reserved before its turn's delegations get their allowance, and what it does not spend is available in the next turn; the tool gets its rollout's address", async () => {
  const costly: Tool<{ query: string }> = {
    name: "search",
    description: "Costs at most $0.0006.",
    parameters: z.strictObject({ query: z.string() }),
    async run(_, context) {
      expect(context.address).toEqual({ ...address, rollout: 3 });
      const refused = context.budget.reserve(0.0006);
      await new Promise(setImmediate);
      context.budget.addCost(0.0001);
      return refused ?? "found";
    },
  };
  const shares: unknown[] = [];
  const ask = callText("delegate", { agent: "a", task: "x" });
  const { spent } = await play(bpe, script(ask + callText("search", { query: "y" }), ask, "<answer>z</answer>"), {
    tools: new Map([["search", costly as Tool]]),
    address: { ...address, rollout: 3 },
    allowance: { calls: null, microUsd: 1000 },
    delegate(request, signal) {
      shares.push(request.allowance?.microUsd);
      return reporting(() => "done")(request, signal);
    },
  });
  expect(shares).toEqual([400, 900]);
  expect(spent.microUsd).toBe(100);
});

describe("limits", () => {
  const loop = () => callText("search", { query: "again" });
  test("a truncated turn has no end-of-turn token and ends the conversation", async () => {
    const { conversation, trajectory } = await play(bpe, () => "and so on ".repeat(30), { limits: { turnTokens: 12 } });
    expect(conversation).toMatchObject({ stop: "token-limit", answer: null, fault: null });
    expect(trajectory.actions).toHaveLength(1);
    expect(trajectory.logProbs).toHaveLength(12);
    expect(trajectory.tokens.at(-1)).not.toBe(bpe.endOfTurn);
  });

  test("a turn whose end-of-turn token is the last one allowed has ended, although the sampler reports its limit", async () => {
    const sampler = scriptedSampler(bpe, () => "<answer>x</answer>");
    const sample: Sampler["sample"] = async (...given) => ({ ...(await sampler.sample(...given)), stop: "length" });
    const { conversation } = await playOn(bpe, { ...sampler, sample });
    expect(conversation).toMatchObject({ stop: "answered", answer: "x" });
  });

  test("turns: the calls of the last turn do not run", async () => {
    let runs = 0;
    const tools = searchTool(() => `${runs++}`);
    const { conversation } = await play(bpe, loop, { limits: { turns: 3 }, tools });
    expect(conversation.stop).toBe("turn-limit");
    expect([conversation.turns.length, runs]).toEqual([3, 2]);
  });

  test("context: responses that do not fit are left out of the tokens, and no trajectory exceeds contextTokens", async () => {
    for (const contextTokens of [600, 640, 680, 720]) {
      const { conversation, trajectory, sampler } = await play(bpe, loop, { limits: { contextTokens, turns: 99 } });
      expect(conversation.stop).toBe("token-limit");
      expect(trajectory.tokens.length).toBeLessThanOrEqual(contextTokens);
      expect(trajectory.actions.at(-1)?.[1]).toBe(trajectory.tokens.length);
      for (const { tokens, maxTokens } of sampler.requests)
        expect(tokens.length + maxTokens).toBeLessThanOrEqual(contextTokens);
    }
  });

  test("a prompt that does not fit ends the conversation in token-limit without a turn; if not even the template fits, the config is refused", async () => {
    const { conversation, trajectory, sampler } = await play(bpe, loop, {
      prompt: "x ".repeat(900),
      limits: { contextTokens: 700 },
    });
    expect(conversation).toMatchObject({ stop: "token-limit", turns: [] });
    expect(trajectory).toMatchObject({ tokens: [], actions: [], logProbs: [] });
    expect(sampler.released).toEqual(["s1"]);
    await expect(play(bpe, loop, { limits: { contextTokens: 100 } })).rejects.toThrow(
      /agents.main.limits.contextTokens is 100/,
    );
  });

  test("a response is cut to responseCharacters and marked as cut", async () => {
    const { conversation } = await play(bpe, script(loop(), "<answer>x</answer>"), {
      tools: searchTool(() => "x".repeat(1e6)),
      limits: { responseCharacters: 5 },
    });
    expect(conversation.turns[0]?.responses[0]?.text).toBe("xxxxx [cut]");
  });
});

describe("drift", () => {
  const forgetful = `{%- for m in messages %}{%- if not (m.role == "tool" and loop.index0 < messages|length - 1) %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{%- endif %}{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant {% endif %}`;
  const search = callText("search", { query: "x" });
  test("a template that rewrites earlier messages is refused, with the position", async () => {
    const tokenizer = openTokenizer(bpeFiles(forgetful));
    const playing = play(tokenizer, script(search, search, "<answer>x</answer>"), {
      settings: { toolPrompt: "none" },
    });
    await expect(playing).rejects.toSatisfy((error) => isMgrpoError(error, "prefix-drift"));
    await expect(playing).rejects.toThrow(
      /agent 'main': its chat_template rewrites earlier messages .*\(from character \d+: /,
    );
  });

  test("a template that leaves the question out is refused", async () => {
    const answersOnly = "(message.content if message.role == 'assistant' else '')";
    const tokenizer = openTokenizer(bpeFiles(TERSE_TEMPLATE.replace("' ' + message.content", `' ' + ${answersOnly}`)));
    await expect(play(tokenizer, script(search), { settings: { toolPrompt: "none" } })).rejects.toThrow(
      /leaves out or repeats the content of a message/,
    );
  });

  const broken: [string, Awaited<ReturnType<Sampler["sample"]>>][] = [
    ["too many tokens", { tokens: [1, 2, 3, 4, 5, 6], logProbs: [0, 0, 0, 0, 0, 0], stop: "length" }],
    ["no tokens", { tokens: [], logProbs: [], stop: "length" }],
    ["a log-prob missing", { tokens: [1, 2], logProbs: [0], stop: "length" }],
    ["a log-prob that is not a number", { tokens: [1], logProbs: [Number.NaN], stop: "length" }],
    ["a stop without its token", { tokens: [1], logProbs: [0], stop: "stop" }],
    ["tokens after the end", { tokens: [bpe.endOfTurn, 1], logProbs: [0, 0], stop: "length" }],
  ];
  test.each(broken)("a sampler that returns %s is refused, and its sequence released", async (_, sample) => {
    const sampler = { ...scriptedSampler(bpe, () => ""), sample: async () => sample };
    const playing = playOn(bpe, sampler, { limits: { turnTokens: 5 } });
    await expect(playing).rejects.toSatisfy((error) => isMgrpoError(error, "prefix-drift"));
    expect(sampler.released).toEqual(["s1"]);
  });
});

test("a conversation that has ended leaves no listener on the rollout's signal, which would keep it in memory", async () => {
  const { signal } = new AbortController();
  let during = 0;
  const tools = searchTool(() => {
    during = getEventListeners(signal, "abort").length;
    return "found";
  });
  await play(bpe, script(callText("search", { query: "x" }), "<answer>y</answer>"), { tools, signal });
  expect(during).toBeGreaterThan(0);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

describe("infrastructure failures are rejections, never text", () => {
  const both = callText("search", { query: "x" }) + callText("delegate", { agent: "a", task: "y" });
  const outage = new MgrpoError("worker-unavailable", "no searcher", { retryable: true });

  test("a failed delegation is rethrown unchanged, cancels the other calls, and releases the sequence", async () => {
    let canceled = false;
    const sampler = scriptedSampler(bpe, script(both));
    const tools = searchTool(
      (_, signal) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => {
            canceled = true;
            reject(signal.reason);
          }),
        ),
    );
    await expect(playOn(bpe, sampler, { tools, delegate: () => Promise.reject(outage) })).rejects.toBe(outage);
    expect(canceled).toBe(true);
    expect(sampler.released).toEqual(["s1"]);
  });

  test("an unexpected error in a tool is a retryable failure of the tool's backend", async () => {
    const tools = searchTool(() => {
      throw new TypeError("socket closed");
    });
    await expect(play(bpe, script(both), { tools })).rejects.toSatisfy(
      (error) =>
        isMgrpoError(error, "tool-backend") &&
        error.retryable &&
        /'search' failed on question 'q1': socket closed \(at \S*converse\.test\.ts:\d+:\d+\)$/.test(error.message),
    );
  });

  test("a tool that returns no text is a retryable failure of the tool's backend", async () => {
    const tools = searchTool(() => undefined as unknown as string);
    await expect(play(bpe, script(both), { tools })).rejects.toMatchObject({
      code: "tool-backend",
      retryable: true,
      message: "tool 'search' failed on question 'q1': it returned undefined instead of a string",
    });
  });

  test("a tool's own MgrpoError is rethrown unchanged, even one from the recipe's own copy of the class", async () => {
    const refusal = Object.assign(new Error("HTTP 401: it refuses the key"), {
      [Symbol.for("mgrpo.error")]: true,
      code: "tool-backend",
      retryable: false,
    });
    const tools = searchTool(() => Promise.reject(refusal));
    await expect(play(bpe, script(both), { tools })).rejects.toBe(refusal);
  });

  test.each([undefined, new MgrpoError("deadline", "rollout took too long")])(
    "a conversation canceled with reason %s rejects at once, even if a tool ignores the signal",
    async (reason) => {
      const cancel = new AbortController();
      const tools = searchTool(() => {
        cancel.abort(reason);
        return new Promise<string>(() => {});
      });
      await expect(play(bpe, script(both), { tools, signal: cancel.signal })).rejects.toSatisfy((error) =>
        reason ? error === reason : isMgrpoError(error, "canceled"),
      );
      await expect(play(bpe, script(both), { signal: cancel.signal })).rejects.toBeInstanceOf(MgrpoError);
    },
  );
});
