/** @file What `mgrpo show` shows of a rollout that an app ran. */
import { expect, test } from "vitest";
import { countLines } from "../../cli/show/app-tree.ts";
import { loadTrees } from "../../cli/show/load.ts";
import { drawText } from "../../cli/show/text.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { callKey, placeInvocations } from "../../core/monitoring/placement.ts";
import type { Tree } from "../../ui/views.ts";
import { complete, relayApp } from "../fixtures/relay/app.ts";
import { runWithApp } from "../fixtures/relay/app-run.ts";

const tags = (tree: Tree | undefined) => (tree?.tags ?? []).map(({ text }) => text);
const named = (trees: readonly Tree[], title: string) => trees.filter((tree) => tree.title === title);

test("sub-agents' conversations are under the calls that led to them; each agent's counts are below the turns", async () => {
  const { config, store } = await runWithApp(relayApp, { rolloutsPerQuestion: 6 });
  const [group] = await loadTrees(store, config, { step: 0, group: 0 });
  const rollouts = group?.children ?? [];
  expect(rollouts).toHaveLength(6);
  const delegations = rollouts.flatMap(({ children }) => children.flatMap((turn) => named(turn.children, "delegate")));
  expect(delegations.length).toBeGreaterThan(1);
  for (const {
    tags: [task],
    children,
  } of delegations) {
    const [conversation] = children;
    expect(conversation?.title).toBe("delegate → searcher");
    expect(task?.text).toContain(`"task":"${conversation?.body}"`);
    expect(tags(conversation).join()).toMatch(/reward 0\.\d+.*advantage/);
  }
  for (const { children } of rollouts) {
    expect(children.at(-3)).toMatchObject({ title: "main", tags: [{ text: "1 branch" }] });
    expect(named(children, "sub-agents")).toEqual([]);
    const count = children.flatMap((turn) => turn.children.flatMap((call) => call.children)).length;
    expect(tags(children.at(-2))[0]).toBe(count === 1 ? "1 branch" : `${count} branches`);
  }
});

/** An app that holds two conversations with the main agent. */
const branchingApp: typeof relayApp = async ({ agents: { main } }) => {
  if (!main) throw new Error("no team");
  for (const content of ["one", "another"]) await complete(main, { messages: [{ role: "user", content }] });
  return { reward: 0.5 };
};

test("the texts of branches are shown even after retention has deleted the version's weights, or the file that names them on a server", async () => {
  const { config, store } = await runWithApp(branchingApp);
  const get = async (key: string) => {
    const bytes = await store.objects.get(key);
    if (!bytes || key !== objectKeys.manifest(config.run, "main", 0)) return bytes;
    const manifest = JSON.parse(new TextDecoder().decode(bytes));
    const deleted = { sha256: "0".repeat(64), bytes: 2 };
    const files = { ...manifest.files, "model.safetensors": deleted, "tinker.json": deleted };
    return new TextEncoder().encode(JSON.stringify({ ...manifest, files }));
  };
  const stored = { ...store, objects: { ...store.objects, get } };
  const [tree] = await loadTrees(stored, config, { step: 0, group: 0, rollout: 0 });
  const [branch] = named(tree?.children ?? [], "branch 1 of 2");
  expect(branch?.children[0]?.title).toBe("turn 1");
});

test("the tokenizer is opened once for all rollouts of a group", async () => {
  const { config, store } = await runWithApp(branchingApp, { rolloutsPerQuestion: 3 });
  const read: string[] = [];
  const get = (key: string) => {
    read.push(key);
    return store.objects.get(key);
  };
  const [group] = await loadTrees({ ...store, objects: { ...store.objects, get } }, config, { step: 0, group: 0 });
  const branched = group?.children.filter(({ children }) => children[0]?.title === "branch 1 of 2");
  expect(branched).toHaveLength(3);
  const manifests = read.filter((key) => key === objectKeys.manifest(config.run, "main", 0));
  expect(manifests).toHaveLength(1);
});

test("the tree shows branches, rewritten histories, stray conversations and the app's rewards", async () => {
  const { config, store } = await runWithApp(async ({ agents: { main, searcher }, question }) => {
    if (!main || !searcher) throw new Error("no team");
    const asked = { role: "user", content: question.prompt };
    await complete(main, { messages: [asked] });
    await complete(main, {
      messages: [asked, { role: "assistant", content: "I never said it" }, { role: "user", content: "?" }],
    });
    await complete(searcher, { messages: [{ role: "user", content: "a task from nowhere" }], max_tokens: 1 });
    return { reward: 0.5, rewards: { searcher: 0.25 } };
  });
  const [tree = expect.fail()] = await loadTrees(store, config, { step: 0, group: 0, rollout: 0 });
  expect(tree.children.map(({ title }) => title)).toEqual([
    "branch 1 of 2",
    "branch 2 of 2",
    "sub-agents",
    "main",
    "searcher",
    "answer",
  ]);
  expect(tags(tree)[0]).toBe("0.5 correct");
  const [first, second, stray, main, searcher] = tree.children;
  expect(first?.children[0]?.body).toMatch(/tool_call|answer/);
  expect(second?.children[0]?.title).toBe("turn 1");
  expect(stray?.children[0]?.body).toBe("a task from nowhere");
  expect(tags(main)).toEqual(["2 branches", "1 request with rewritten history", "reward 0.5 from the app"]);
  expect(tags(searcher)).toEqual(["1 branch", "1 turn cut off at the token limit", "reward 0.25 from the app"]);
  expect(drawText(tree)).toContain("branch 1 of 2  1 turn of its own");
});

test("an agent's line says how many of its turns have an unparsed tool call", () => {
  const counts = { branches: 1, rewritten: 0, unparsed: 2, cut: 0 };
  const [line] = countLines({ branches: [], counts: { main: counts } }, "main");
  expect(tags(line)).toEqual(["1 branch", "2 turns with an unparsed tool call"]);
});

test("a conversation is placed under a call with its task, else a call with part of its task, else the turn whose text contains its task", () => {
  const turn = (text: string, ...tasks: string[]) => ({
    text,
    calls: tasks.map((task) => ({ name: "ask", arguments: { list: [{ task }] } })),
    responses: [],
  });
  const turns = [turn("", "find the river"), turn("I want to know the mountain", "find the river")];
  const prompts = ["find the river", "find the river", "You are careful. find the river", "the mountain", "else"];
  const conversation = (prompt: string) => ({ prompt, turns: [], stop: "answered" as const, answer: "", fault: null });
  const invocations = new Map(prompts.map((prompt, i) => [`${i}`, { conversation: conversation(prompt) }]));
  const { ofCall, ofTurn, left } = placeInvocations(turns, invocations);
  expect(Object.fromEntries(ofCall)).toEqual({ [callKey(0, 0)]: ["0", "2"], [callKey(1, 0)]: ["1"] });
  expect(Object.fromEntries(ofTurn)).toEqual({ 1: ["3"] });
  expect(left).toEqual(["4"]);
});

test("a task that is asked twice stays with the call that names it, not with one that merely contains it", () => {
  const calls = ["find the river", "find the river and the mountain"].map((task) => ({
    name: "ask",
    arguments: { task },
  }));
  const prompts = ["find the river", "find the river", "find the river and the mountain"];
  const conversation = (prompt: string) => ({ prompt, turns: [], stop: "answered" as const, answer: "", fault: null });
  const invocations = new Map(prompts.map((prompt, i) => [`${i}`, { conversation: conversation(prompt) }]));
  const { ofCall } = placeInvocations([{ text: "", calls, responses: [] }], invocations);
  expect(Object.fromEntries(ofCall)).toEqual({ [callKey(0, 0)]: ["0", "1"], [callKey(0, 1)]: ["2"] });
});
