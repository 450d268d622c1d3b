/**
 * @file Properties of what agents' sessions record, over generated histories: conversations are continued, edited and forked, requests are
 * retried and aborted, and replies are lost.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import type {
  AgentSession,
  AppMessage,
  OfferedTool,
  TurnReply,
  TurnRequest,
} from "../../../core/contracts/app-chat.ts";
import type { Trajectory } from "../../../core/contracts/rollout.ts";
import { type Branch, subConversationOf, trajectoriesOf, trajectoryOf } from "../../../core/gateway/branch.ts";
import type { Random } from "../../../core/random.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { planOf, type RecordedSample, scriptedAgent, VERSIONS } from "./harness.ts";

const AGENTS = ["main", "searcher"] as const;
type Agent = (typeof AGENTS)[number];

/** Few replies, so that different requests often get the same one. */
const REPLIES = [
  ...["yes", "no", " yes", "<think>a</think>yes", "<think>b</think>yes", "<answer>yes</answer>", "yes".repeat(30)],
  ...['<tool_call>{"name": "look", "arguments": {"a": 1}}</tool_call>', "<tool_call>nonsense</tool_call>"],
];
const script = (_conversation: string, random: Random) => REPLIES[random.integer(REPLIES.length)] ?? "";

const look: OfferedTool = { type: "function", function: { name: "look", description: "", parameters: {} } };

const operation = fc.record({
  kind: fc.constantFrom("open", "continue", "continue", "edit", "retry"),
  agent: fc.constantFrom<Agent>(...AGENTS),
  /** Which of the earlier conversations, or requests. */
  pick: fc.nat(20),
  word: fc.constantFrom("one", "two"),
  variant: fc.constantFrom("", "1", "2"),
  hasTools: fc.boolean(),
  end: fc.constantFrom("delivered", "delivered", "delivered", "lost", "aborted"),
});
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

/**
 * The operations of a round run concurrently. `rank`: in the reordered play, the order in which requests arrive and
 * replies are delivered.
 */
const history = fc.array(fc.array(fc.record({ operation, rank: fc.nat(1000) }), { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 4,
});
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;

interface Sent {
  readonly agent: Agent;
  readonly request: TurnRequest;
}
type Received = Sent & { readonly reply: TurnReply };

const user = (text: string): AppMessage => ({ role: "user", text });

/** What the client sends, given what it has sent and received in earlier rounds. */
function sentBy({ kind, agent, pick, word, variant, hasTools }: Operation, sent: Sent[], received: Received[]): Sent {
  const tools = hasTools ? [look] : [];
  const request = { messages: [user(word)], tools, mayCall: true, stopStrings: [], variant };
  if (kind === "retry" && sent.length > 0) return sent[pick % sent.length] ?? expect.fail();
  const from = received[pick % Math.max(received.length, 1)];
  if (kind === "open" || kind === "retry" || !from) return { agent, request };
  const { text, calls } = from.reply;
  const reply: AppMessage = { role: "assistant", text: kind === "edit" ? `${text}!` : ` ${text} `, calls };
  const rest =
    calls.length > 0 ? calls.map((_, call): AppMessage => ({ role: "tool", call, text: word })) : [user(word)];
  return { agent: from.agent, request: { ...request, messages: [...from.request.messages, reply, ...rest] } };
}

const sessionOf = (agent: Agent): AgentSession => {
  const { address, sampling } = planOf(0);
  return { id: "a".repeat(22), run: address.run, address, questionId: "q", agent, version: VERSIONS[agent], sampling };
};

async function play(rounds: History, isReordered: boolean) {
  const samples: RecordedSample[] = [];
  const config = { limits: { turns: 8, turnTokens: 80, contextTokens: 4000 } };
  const open = (agent: Agent) =>
    new AgentSessions(scriptedAgent(agent, samples, { script, config }), [7, "app"], 64, 0);
  const sessions = { main: open("main"), searcher: open("searcher") };
  const [sent, received]: [Sent[], Received[]] = [[], []];
  const delivered = { main: new Set<string>(), searcher: new Set<string>() };
  for (const round of rounds) {
    const asked = round.map(({ operation, rank }) => ({
      ...sentBy(operation, sent, received),
      rank,
      end: operation.end,
    }));
    const arrived = isReordered ? asked.toSorted((a, b) => a.rank - b.rank) : asked;
    const replies = arrived.map(async ({ agent, request, end }) => {
      const stop = new AbortController();
      const turn = sessions[agent].turn(sessionOf(agent), request, stop.signal);
      if (end === "aborted") stop.abort();
      return await turn.catch(() => undefined);
    });
    const byRequest = new Map(await Promise.all(arrived.map(async (one, i) => [one, await replies[i]] as const)));
    for (const one of arrived) {
      const reply = byRequest.get(one);
      if (reply && one.end === "delivered") delivered[one.agent].add(reply.exchange);
    }
    for (const one of asked) {
      const reply = byRequest.get(one);
      sent.push(one);
      if (reply && one.end === "delivered") received.push({ ...one, reply });
    }
  }
  const branchesOf = (agent: Agent) => sessions[agent].end(sessionOf(agent).id, [...delivered[agent]]);
  return { samples, delivered, ended: { main: branchesOf("main"), searcher: branchesOf("searcher") } };
}

type Played = Awaited<ReturnType<typeof play>>;

function trajectoriesIn({ ended }: Played): Record<Agent, Trajectory[]> {
  return {
    main: trajectoriesOf("main", VERSIONS.main, ended.main.branches),
    searcher: ended.searcher.branches.map((branch) => trajectoryOf("searcher", VERSIONS.searcher, branch)),
  };
}

/** All that is recorded. */
function recordsOf(played: Played) {
  const { main, searcher } = played.ended;
  return {
    trajectories: trajectoriesIn(played),
    counts: [main.counts, searcher.counts],
    conversations: [...main.branches, ...searcher.branches].map(subConversationOf),
    ids: [main, searcher].map(({ branches }) => branches.map((branch) => branch.map(({ id }) => id))),
  };
}

const sampleKey = (
  agent: string,
  version: number,
  prefix: readonly number[],
  tokens: readonly number[],
  logProbs: unknown,
) => JSON.stringify([agent, version, prefix, tokens, logProbs]);

/** Every action of the trajectory was sampled: by this agent and version, after exactly these tokens, with these log-probs. */
function expectSampled(
  { agent, version, tokens, actions, logProbs }: Trajectory,
  samples: Map<string, number>,
): string[] {
  let at = 0;
  return actions.map(([start, end]) => {
    const own = logProbs.slice(at, at + end - start);
    at += end - start;
    const key = sampleKey(agent, version, tokens.slice(0, start), tokens.slice(start, end), own);
    expect(samples.has(key), key).toBe(true);
    return key;
  });
}

/**
 * Every delivered reply is recorded, and each branch ends with a different one. Every recorded reply was delivered, or
 * looks to the client like one that was.
 */
function expectDelivered(branches: readonly Branch[], delivered: ReadonlySet<string>): void {
  const recorded = new Set(branches.flat().map(({ id }) => id));
  expect([...delivered].filter((id) => !recorded.has(id))).toEqual([]);
  const leaves = branches.map((branch) => branch.at(-1)?.id ?? "");
  expect(leaves.filter((id) => !delivered.has(id))).toEqual([]);
  expect(new Set(leaves).size).toBe(leaves.length);
  const reads = ({ messages, turn }: Branch[number]) =>
    JSON.stringify([messages, turn.text.split("</think>").at(-1)?.trim()]);
  const received = new Set(branches.flat().flatMap((one) => (delivered.has(one.id) ? reads(one) : [])));
  for (const exchange of branches.flat())
    expect(delivered.has(exchange.id) || received.has(reads(exchange))).toBe(true);
}

test("what is recorded was sampled and delivered, and does not depend on the order of arrival; the main agent trains on no sample twice", async () => {
  let withSeveralBranches = 0;
  await fc.assert(
    fc.asyncProperty(history, async (rounds) => {
      const played = await play(rounds, false);
      const { samples, delivered, ended } = played;
      const taken = new Map<string, number>();
      for (const { agent, version, request, sample } of samples) {
        const key = sampleKey(agent, version, request.tokens, sample.tokens, sample.logProbs);
        taken.set(key, (taken.get(key) ?? 0) + 1);
      }
      expect(new Set(samples.map(({ request }) => request.stream.join("/"))).size).toBe(samples.length);
      const trajectories = trajectoriesIn(played);
      for (const key of trajectories.main.flatMap((one) => expectSampled(one, taken))) {
        taken.set(key, (taken.get(key) ?? 0) - 1);
        expect(taken.get(key)).toBeGreaterThanOrEqual(0);
      }
      for (const one of trajectories.searcher) expectSampled(one, taken);
      for (const agent of AGENTS) expectDelivered(ended[agent].branches, delivered[agent]);
      withSeveralBranches += ended.main.branches.length > 1 ? 1 : 0;
      expect(recordsOf(await play(rounds, true))).toEqual(recordsOf(played));
    }),
    { numRuns: 300, seed: 20 },
  );
  expect(withSeveralBranches).toBeGreaterThan(50);
}, 240_000);
