/** @file An app that runs conversations concurrently: neither what is recorded nor its order depends on their speed. */
import { expect, test } from "vitest";
import type { AppCall } from "../../../core/contracts/app-rollout.ts";
import { stream } from "../../../core/random.ts";
import { type ApiMessage, complete } from "../../fixtures/relay/app.ts";
import { openHarness } from "./harness.ts";

const tools = [{ type: "function", function: { name: "research" } }];
const call = (task: string) => JSON.stringify({ name: "research", arguments: { to: "searcher", task } });

/** One conversation of the main agent: it calls `research` for each task, and answers with the reports. */
async function chain({ agents }: AppCall, tasks: readonly string[]): Promise<string> {
  const { main, searcher } = agents;
  if (!main || !searcher) return expect.fail();
  const messages: ApiMessage[] = [{ role: "user", content: `call ${tasks.map(call).join("\n")}` }];
  const ask = async () => (await complete(main, { messages, tools })).choices[0]?.message ?? expect.fail();
  const reply = await ask();
  messages.push(reply);
  const reports = (reply.tool_calls ?? []).map(async ({ id, function: { arguments: written } }) => {
    const { task } = JSON.parse(written) as { task: string };
    const asked = [{ role: "user", content: task }];
    const first = (await complete(searcher, { messages: asked })).choices[0]?.message ?? expect.fail();
    // A second conversation about the same task.
    await complete(searcher, { messages: [{ role: "user", content: `check ${first.content}: ${task}` }] });
    return { role: "tool", tool_call_id: id, content: first.content };
  });
  messages.push(...(await Promise.all(reports)));
  return (await ask()).content ?? "";
}

/** The record of a rollout whose samples take random times, which the seed decides. */
async function recordedWith(seed: number, app: (call: AppCall) => Promise<string>) {
  const beforeSample = (request: { stream: readonly (string | number)[] }) =>
    new Promise<void>((resolve) => setTimeout(resolve, 2 * stream(seed, ...request.stream).integer(15)));
  const harness = await openHarness({ beforeSample });
  const outcome = await harness.run(async (given) => ({ answer: await app(given) }));
  return { outcome, invocations: await harness.invocations(outcome) };
}

const chains = [["say a", "say b"], ["say c"], ["say d", "say e"], ["say f"]];
const sideBySide = async (given: AppCall) => (await Promise.all(chains.map((tasks) => chain(given, tasks)))).join(" ");
const oneByOne = async (given: AppCall) => {
  const answers: string[] = [];
  for (const tasks of chains) answers.push(await chain(given, tasks));
  return answers.join(" ");
};

test("concurrent conversations leave the same record as sequential ones", async () => {
  const first = await recordedWith(0, oneByOne);
  expect(first.invocations).toHaveLength(12);
  expect(first.outcome.app?.counts["main"]?.branches).toBe(4);
  for (const seed of [1, 2, 3, 4, 5, 6]) expect(await recordedWith(seed, sideBySide)).toEqual(first);
}, 60_000);

test("a sub-agent's conversations are recorded in the order of the calls that led to them", async () => {
  const tasks = ["say d", "say b", "say c", "say a"];
  for (const seed of [1, 2, 3]) {
    const { invocations } = await recordedWith(seed, (given) => chain(given, tasks));
    expect(invocations.map(({ request }) => request.task.slice(-5))).toEqual(tasks.flatMap((task) => [task, task]));
    expect(invocations.map(({ request }) => request.call)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  }
}, 60_000);

test.each([0, 1])("the outcome's conversation is the one that the answer comes from: index %i", async (chosen) => {
  const words = ["left", "right"];
  const { outcome } = await recordedWith(1, async (given) => {
    const answers = await Promise.all(words.map((word) => chain(given, [`say ${word}`])));
    return answers[chosen] ?? expect.fail();
  });
  expect(outcome.conversation.turns.at(-1)?.text).toBe(`<answer>${words[chosen]}</answer>`);
});

test("if no reply has the answer, the outcome's conversation is the longest one", async () => {
  const { outcome } = await recordedWith(1, async ({ agents }) => {
    const main = agents["main"] ?? expect.fail();
    const long: ApiMessage[] = [
      { role: "system", content: "be brief" },
      { role: "user", content: "say b" },
    ];
    await complete(main, { messages: [{ role: "user", content: "say a" }] });
    const reply = (await complete(main, { messages: long })).choices[0]?.message ?? expect.fail();
    await complete(main, { messages: [...long, reply, { role: "user", content: "say c" }] });
    return "none of these";
  });
  expect(outcome.conversation.turns.map(({ text }) => text)).toEqual(["b", "c"]);
  expect(outcome.app?.branches).toHaveLength(1);
});
