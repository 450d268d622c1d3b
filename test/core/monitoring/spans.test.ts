/** @file The spans of a rollout: their times, measured or in shares; which calls have one; why each message ended; the question's note. */
import { expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { TurnLatency } from "../../../core/contracts/telemetry.ts";
import { spansOf } from "../../../core/monitoring/spans.ts";
import { config, finishedRun, groups } from "../../cli/records.ts";

const { outcome, invocation } = finishedRun;
const [group = expect.fail()] = groups;
if (outcome.status !== "finished") throw new Error("the rollout in records.ts is not finished");

const call = { name: "delegate", arguments: {} };
const delegated = { name: "delegate", text: "", invocation: invocation.id };
const tool = { name: "lookup", text: "" };
const conversation: Conversation = {
  ...outcome.conversation,
  turns: [
    { text: "", calls: [call, { name: "lookup", arguments: {} }], responses: [delegated, tool] },
    { text: "", calls: [], responses: [] },
  ],
};
const sub: Conversation = { ...invocation.conversation, turns: [{ text: "", calls: [], responses: [] }] };
const traced = {
  config,
  outcome: { ...outcome, conversation },
  invocations: new Map([[invocation.id, { ...invocation, conversation: sub }]]),
  group,
  models: { main: "m", searcher: "s" },
  content: false,
};
const { rollout, group: index } = outcome.address;
const name = `${index}/${rollout}`;
const timesOf = (latencies: ReadonlyMap<string, readonly TurnLatency[]>) => {
  const { spans, seconds } = spansOf({ ...traced, latencies });
  return { seconds, times: Object.fromEntries(spans.map(({ id, start, end }) => [id, [start, end]])) };
};

test("a turn's calls begin together when it ends, and the next turn begins when the longest call ends", () => {
  const latencies = new Map([
    [
      name,
      [
        { sampling: 1, calls: [4, 0.5] },
        { sampling: 2, calls: [] },
      ],
    ],
    [`${name}/${invocation.request.call}`, [{ sampling: 3, calls: [] }]],
  ]);
  expect(timesOf(latencies)).toEqual({
    seconds: 7,
    times: {
      main: [0, 7],
      "main/0": [0, 1],
      "main/0/0": [1, 5],
      "main/0/0/0": [1, 4],
      "main/0/1": [1, 1.5],
      "main/1": [5, 7],
    },
  });
});

test("an agent's spans have its advantage and weight if it is trained, and neither if it is frozen", () => {
  const { main = expect.fail(), searcher = expect.fail() } = config.agents;
  const advantages = (agents: typeof config.agents) =>
    spansOf({ ...traced, config: { agents } }).spans.flatMap(({ attributes }) =>
      "mgrpo.advantage" in attributes ? [attributes["gen_ai.agent.name"]] : [],
    );
  expect(advantages({ main, searcher })).toEqual(["main", "searcher"]);
  expect(advantages({ main, searcher: { ...searcher, trained: false } })).toEqual(["main"]);
  expect(advantages({ main: { ...main, trained: false }, searcher })).toEqual(["searcher"]);
});

test("unless every conversation was measured, the spans share the step's time", () => {
  const { seconds, times } = timesOf(new Map([[name, [{ sampling: 1, calls: [4, 0.5] }]]]));
  expect(seconds).toBeUndefined();
  expect(times["main"]).toEqual([0, 1]);
  expect(times["main/1"]).toEqual([0.75, 1]);
});

test("a call that never ran, since no turn was left to read its response, has no span", () => {
  const turns = [{ text: "", calls: [call], responses: [] }];
  const ended = { ...conversation, turns, stop: "turn-limit" as const, answer: null };
  const { spans } = spansOf({ ...traced, outcome: { ...traced.outcome, conversation: ended } });
  expect(spans.map(({ id }) => id)).toEqual(["main", "main/0"]);
});

test("in a rollout that an app ran, a sub-agent is below the call that names its task, or else below the main agent", () => {
  const request = { ...invocation.request, task: "find Lima" };
  const found = (id: string, prompt: string) => ({ ...invocation, id, request, conversation: { ...sub, prompt } });
  const turns = [
    {
      text: "",
      calls: [{ name: "ask", arguments: { task: "find Lima" } }, call],
      responses: [{ name: "ask", text: "" }],
    },
    { text: "find Quito", calls: [], responses: [] },
  ];
  const branch = { ...outcome.trajectory, tokens: [1, 2], actions: [[1, 2] as [number, number]], logProbs: [-1] };
  const app = { branches: [branch], counts: {} };
  const own = { ...traced.outcome, trajectory: branch, conversation: { ...conversation, turns }, app };
  const named = [found("a", "find Lima"), found("b", "find Quito"), found("c", "find Bonn")];
  const invocations = new Map(named.map((one) => [one.id, one]));
  const { spans } = spansOf({ ...traced, outcome: own, invocations });
  const below = spans.flatMap(({ id, parent, name }) =>
    name === "invoke_agent searcher" ? [`${id} < ${parent}`] : [],
  );
  expect(below).toEqual(["main/0/0/a < main/0/0", "main/b < main", "main/c < main"]);
  // Of all branches.
  expect(spans[0]?.attributes["gen_ai.usage.output_tokens"]).toBe(2);
  const chats = spans.filter(({ id }) => ["main/0", "main/0/0/a/0", "main/1", "main/b/0", "main/c/0"].includes(id));
  expect(chats.map(({ start }) => start)).toEqual([0, 0.2, 0.4, 0.6, 0.8]);
});

test("a response belongs to the call whose name it has, even if an app answered no other call", () => {
  const turns = [{ text: "", calls: [call, { name: "lookup", arguments: {} }], responses: [tool] }];
  const { spans } = spansOf({ ...traced, outcome: { ...traced.outcome, conversation: { ...conversation, turns } } });
  expect(spans.map(({ name }) => name)).toEqual(["invoke_agent main", "chat m", "execute_tool lookup"]);
});

test("every output message says why its generation ended", () => {
  const reasonsOf = (part: Partial<Conversation>) => {
    const ended = { ...traced.outcome, conversation: { ...conversation, ...part } };
    const { spans } = spansOf({ ...traced, outcome: ended, content: true });
    return spans.flatMap(({ id, attributes }) => {
      const [message] = JSON.parse(String(attributes["gen_ai.output.messages"] ?? "[]"));
      return message ? [`${id} ${message.finish_reason}`] : [];
    });
  };
  const turns = ["main/0 tool_call", "main/0/0 stop", "main/0/0/0 stop"];
  expect(reasonsOf({})).toEqual(["main stop", ...turns, "main/1 stop"]);
  expect(reasonsOf({ stop: "token-limit", answer: null })).toEqual([...turns, "main/1 length"]);
});

test("with content, only the root span has the recipe's note on the question", () => {
  const notesIn = (part: { readonly note?: string; readonly content: boolean }) =>
    spansOf({ ...traced, ...part }).spans.flatMap(({ id, attributes }) => {
      const note = attributes["mgrpo.question.note"];
      return note === undefined ? [] : [`${id}: ${note}`];
    });
  expect(notesIn({ note: "shuffled", content: true })).toEqual(["main: shuffled"]);
  expect(notesIn({ note: "shuffled", content: false })).toEqual([]);
  expect(notesIn({ content: true })).toEqual([]);
});
