/**
 * @file A step with many groups: its views come in pages, and in group order, a page reads only the groups that it shows. A search reads one page
 * of groups at a time, and each hit shows its match.
 */
import { expect, test } from "vitest";
import type { Source } from "../../cli/show/source.ts";
import { type Search, searchStep } from "../../cli/ui/search.ts";
import { stepView } from "../../cli/ui/step.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { GROUPS_PER_PAGE, type GroupOrder, inOrder } from "../../ui/group-order.ts";
import { SearchView, StepView } from "../../ui/views.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, finishedRun, groups, question, RUN, step } from "./records.ts";

const MANY = 3 * GROUPS_PER_PAGE + 1;
const ALL = Array.from({ length: MANY }, (_, group) => group);
const [first = expect.fail()] = groups;

/** A step of many groups of one question; the later a group, the worse its only scored rollout. `reads`: the groups that were read. */
async function manyGroups() {
  const store = memoryStore();
  await store.table.insert(tableKeys.step(RUN, 0), { ...step, groups: ALL.map(() => "q1") });
  for (const group of ALL) {
    const rollouts = { "0": { reward: 1 - group / MANY, correct: 1, wellFormed: true, tokens: 1, invocations: {} } };
    await store.table.insert(tableKeys.group(RUN, 0, group), { ...first, group, rollouts, finalized: {} });
  }
  const bytes = new TextEncoder().encode(JSON.stringify({ train: [question("q1")], heldOut: [] }));
  await store.objects.commit(objectKeys.questions(RUN), bytes);
  const reads: number[] = [];
  const getAll = store.table.getAll.bind(store.table);
  store.table.getAll = (keys) => {
    reads.push(...keys.map(({ pk }) => Number(pk.split("#").at(-1))));
    return getAll(keys);
  };
  const source: Source = {
    ...{ config, state: "finished", reason: "", step: 1, evaluations: [], folder: "." },
    summaries: async () => [],
    read: (read) => read(store),
  };
  return { source, reads };
}

/** The hits of a search in a step of many groups, in which these groups' rollouts had these conversations. */
async function hitsAmong(
  conversations: Record<number, { prompt?: string; turns?: object[] }>,
  search: Partial<Search>,
) {
  const { source } = await manyGroups();
  return source.read(async (store) => {
    for (const [group, parts] of Object.entries(conversations)) {
      const conversation = { prompt: "", turns: [], stop: "malformed", answer: null, fault: "empty", ...parts };
      const outcome = { ...finishedRun.outcome, conversation, invocations: [] };
      const address = { run: RUN, phase: "train", step: 0, group: Number(group), rollout: 0 };
      await store.objects.commit(objectKeys.outcome(address), new TextEncoder().encode(JSON.stringify(outcome)));
    }
    const { hits } = await searchStep(
      store,
      config,
      0,
      { text: "", filter: "any", from: 0, ...search },
      () => undefined,
    );
    return hits;
  });
}

test("a step shows its groups page by page; in group order, it reads only the groups on the page", async () => {
  const { source, reads } = await manyGroups();
  const shown = async (order: GroupOrder, page: number) => {
    reads.length = 0;
    const view = StepView.parse(await stepView(source, 0, { order, page }, () => undefined));
    expect([view.page, view.pages]).toEqual([page, 4]);
    return view.groups.map(({ group }) => group);
  };
  expect(await shown("group", 1)).toEqual(ALL.slice(GROUPS_PER_PAGE, 2 * GROUPS_PER_PAGE));
  expect(reads).toHaveLength(GROUPS_PER_PAGE);
  expect(await shown("group", 3)).toEqual([MANY - 1]);
  expect(await shown("worst", 0)).toEqual(ALL.toReversed().slice(0, GROUPS_PER_PAGE));
  expect(await shown("best", 3)).toEqual([MANY - 1]);
  expect(await shown("best", 9)).toEqual([]);
});

test("a search reads one page of groups at a time, and its pages hold each hit once", async () => {
  const { source, reads } = await manyGroups();
  const page = async (from: number) => {
    reads.length = 0;
    const search = { text: "", filter: "correct" as const, from };
    const { hits, next } = await source.read((store) => searchStep(store, config, 0, search, () => undefined));
    const found = SearchView.parse({ hits, next }).hits.map(({ group }) => group);
    expect(reads).toEqual(found);
    return { found, next };
  };
  const one = await page(0);
  expect(one.next).toBe(128);
  const two = await page(128);
  expect(two.next).toBeNull();
  expect([...one.found, ...two.found]).toEqual(ALL);
});

test("a hit shows the match, even after letters that become longer in lower case", async () => {
  const hits = await hitsAmong({ 3: { prompt: `${"İ".repeat(200)} Is (1+1) two?` } }, { text: "IS (1+1)" });
  expect(hits).toMatchObject([{ group: 3, excerpt: expect.stringMatching(/^İ{79} Is \(1\+1\) two\?$/) }]);
});

test("a hit has the text however its accents are encoded", async () => {
  const conversations = { 0: { prompt: "a caf\u00e9?" }, 1: { prompt: "a cafe\u0301?" }, 2: { prompt: "a cafe?" } };
  for (const text of ["CAF\u00c9", "cafe\u0301"])
    expect((await hitsAmong(conversations, { text })).map(({ group }) => group)).toEqual([0, 1]);
});

test("an excerpt does not begin or end inside a surrogate pair", async () => {
  // A cut 80 code units before the match, or 80 after it, would fall inside an emoji.
  const hits = await hitsAmong({ 3: { prompt: `${"😀".repeat(50)}- two -${"😀".repeat(50)}` } }, { text: " two " });
  expect(hits).toMatchObject([{ group: 3, excerpt: `${"😀".repeat(39)}- two -${"😀".repeat(39)}` }]);
});

test("a word for failure that follows letters of another script does not make a response a failure", async () => {
  const responding = (text: string) => ({ turns: [{ text: "", calls: [], responses: [{ name: "visit", text }] }] });
  const conversations = { 0: responding("Error: 東京"), 1: responding("東京 error") };
  const hits = await hitsAmong(conversations, { filter: "tool-failed" });
  expect(hits).toMatchObject([{ group: 0, excerpt: "Error: 東京" }]);
});

test("in the orders worst and best, groups without a reward come last, even after negative rewards", async () => {
  const { source } = await manyGroups();
  const { groups: rows } = await stepView(source, 0, { order: "group", page: 0 }, () => undefined);
  const [row = expect.fail()] = rows;
  const rewarded = [null, -0.5, 0.5].map((reward, group) => {
    return { ...row, group, rollouts: row.rollouts.slice(0, 1).map((cell) => ({ ...cell, reward })) };
  });
  const order = (by: GroupOrder) => inOrder(rewarded, by).map(({ group }) => group);
  expect(order("worst")).toEqual([1, 2, 0]);
  expect(order("best")).toEqual([2, 1, 0]);
});
