/**
 * @file What `mgrpo show` shows: the trees of rollouts, steps and their evaluations, and exported pages. Text from conversations is neither markup
 * in a page nor an escape sequence on a terminal.
 */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { readOutcome } from "../../cli/conversations.ts";
import { readRun, readSummary } from "../../cli/local/read-records.ts";
import { readTracedRollouts } from "../../cli/local/traced-rollouts.ts";
import { loadTrees, parseAddress } from "../../cli/show/load.ts";
import type { Source } from "../../cli/show/source.ts";
import { drawText } from "../../cli/show/text.ts";
import { showSteps } from "../../cli/show.ts";
import { MGRPO } from "../../cli/terminal/name.ts";
import { exportPage } from "../../cli/ui/export.ts";
import { searchStep } from "../../cli/ui/search.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { RolloutScore } from "../../core/contracts/records.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { evaluationOf, type TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import type { Table } from "../../core/ports.ts";
import { Export } from "../../ui/export-view.ts";
import { GroupView, StepView, type Tree } from "../../ui/views.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { parsedLines } from "./command-line.ts";
import { printedBy } from "./printed.ts";
import { config, fillFinishedRun, finishedRun, groups, job, manifests, step, storeOfFinishedRun } from "./records.ts";

/** The one rollout of the finished run that has an outcome. */
const FIRST_ROLLOUT = { run: config.run, phase: "train", step: 0, group: 0, rollout: 0 };

const tags = (tree: Tree | undefined) => (tree?.tags ?? []).map(({ text }) => text);

test("the tree is main turn -> invocation -> tool call, with reward parts and advantages", async () => {
  const [tree] = await loadTrees(await storeOfFinishedRun(), config, { step: 0, group: 0, rollout: 0 });
  expect(tags(tree)).toEqual([
    "correct",
    "reward 1.000 = 0.1·format + 0.9·1 correct",
    "advantage +1.000",
    "weight 0.500",
  ]);
  const [turn, answer] = tree?.children ?? [];
  expect(answer?.title).toBe("answer");
  const [delegated] = turn?.children ?? [];
  expect(delegated?.title).toBe("delegate → searcher");
  expect(tags(delegated)).toEqual([
    "reward 0.900 = 0.1·format + 0.4·1 correct + 0.5·0.8 expert",
    "advantage +1.000",
    "weight 1.000",
  ]);
  expect(delegated?.children[0]?.children[0]).toMatchObject({ title: "search" });
});

test("the difference between the sum of a reward's parts and the reward is shown as the overlong penalty", async () => {
  const longer = { ...config, algorithm: { ...config.algorithm, mainReward: { format: 0.35, correct: 0.9 } } };
  const [tree] = await loadTrees(await storeOfFinishedRun(), longer, { step: 0, group: 0, rollout: 0 });
  expect(tags(tree)).toContain("reward 1.000 = 0.35·format + 0.9·1 correct - 0.250 overlong");
});

/** The first rollout of the finished run with another score. `trained`: those of its calls that are in the batch. */
async function treeWith(score: RolloutScore, trained: readonly string[] = []): Promise<Tree> {
  const store = memoryStore();
  const batch = { trajectories: [1, 2], weights: [0.5], advantages: [1, -1], mean: 0.5, std: 0.5 };
  const main = { ...batch, duplicated: 0, dropped: 0 };
  const searcher = { ...main, trajectories: [...trained, "1/0"] };
  const [first = expect.fail(), ...others] = finishedRun.groups;
  const group = { ...first, rollouts: { ...first.rollouts, "0": score }, finalized: { main, searcher } };
  await fillFinishedRun(store, { ...finishedRun, groups: [group, ...others] });
  const [tree = expect.fail()] = await loadTrees(store, config, { step: 0, group: 0, rollout: 0 });
  return tree;
}

test("a tag says why a rollout or a call is not trained on; a masked rollout's calls are not said to be dropped by alignment", async () => {
  const scored = finishedRun.groups[0]?.rollouts["0"] ?? expect.fail();
  const called = (tree: Tree) => tags(tree.children[0]?.children[0]);
  const dropped = called(await treeWith(scored));
  expect(dropped).toEqual([expect.stringMatching(/^reward 0\.900/), "dropped by alignment"]);
  expect(called(await treeWith(scored, ["0/0"]))).toContain("advantage +1.000");

  const masked = await treeWith({ ...scored, masked: true });
  expect(tags(masked)).toEqual(["correct", expect.stringMatching(/^reward 1\.000/), "masked"]);
  expect(called(masked).at(-1)).toBe("not trained on: the main agent's rollout is masked");

  const excluded = await treeWith({ excluded: "judge: refused" });
  expect(tags(excluded)).toEqual(["excluded: judge: refused"]);
  expect(called(excluded)).toEqual([]);
});

test("a frozen agent's rollouts and calls have a reward, but no advantage: nothing is trained on them", async () => {
  const store = await storeOfFinishedRun();
  const { searcher = expect.fail() } = config.agents;
  const frozen = (name: string) => ({
    ...config,
    agents: { ...config.agents, [name]: { ...searcher, trained: false } },
  });
  const treeOf = async (name: string) => (await loadTrees(store, frozen(name), FIRST_ROLLOUT))[0];
  const ofMain = tags(await treeOf("main"));
  expect(ofMain).toEqual(["correct", expect.stringMatching(/^reward 1\.000/)]);
  const ofSearcher = tags((await treeOf("searcher"))?.children[0]?.children[0]);
  expect(ofSearcher).toEqual([expect.stringMatching(/^reward 0\.900/)]);
});

test("scores with more than three decimals are shown with three", async () => {
  // 0.1 + 0.9 / 3 = 0.4, and 0.1 + 0.4 / 3 + 0.5 * 2 / 3 = 0.567.
  const invocation = { id: finishedRun.invocation.id, reward: 0.1 + 0.4 / 3 + 1 / 3, expert: 2 / 3 };
  const score = { reward: 0.4, correct: 1 / 3, wellFormed: true, tokens: 10, invocations: { searcher: [invocation] } };
  const tree = await treeWith(score);
  expect(tags(tree).slice(0, 2)).toEqual(["0.333 correct", "reward 0.400 = 0.1·format + 0.9·0.333 correct"]);
  expect(tags(tree.children[0]?.children[0])[0]).toBe(
    "reward 0.567 = 0.1·format + 0.4·0.333 correct + 0.5·0.667 expert",
  );
});

test("a step shows its groups, and a rollout without an outcome says why", async () => {
  const store = memoryStore();
  const [first = expect.fail(), second = expect.fail()] = finishedRun.groups;
  const open = { ...second, state: "open" as const, rollouts: { "1": { excluded: "infrastructure: gone" } } };
  await fillFinishedRun(store, { ...finishedRun, groups: [first, open] });
  const trees = await loadTrees(store, config, { step: 0 });
  expect(trees.map(({ title }) => title)).toEqual(["group 0/0", "group 0/1"]);
  expect(tags(trees[0]?.children[1])).toEqual(["its conversation has expired"]);
  expect(trees[1]?.children.map(tags)).toEqual([["no outcome yet"], ["excluded: infrastructure: gone"]]);
});

test("a group says which agents learn nothing from it, and why; nothing is said of a frozen agent or of an open group", async () => {
  const store = memoryStore();
  const [first = expect.fail(), second = expect.fail()] = finishedRun.groups;
  const open = { ...second, state: "open" as const, rollouts: {} };
  const { searcher = expect.fail() } = first.finalized;
  await fillFinishedRun(store, { ...finishedRun, groups: [{ ...first, finalized: { searcher } }, open] });
  const signals = async (main: boolean) => {
    const { agents } = config;
    const trained = { ...agents, main: { ...agents["main"], trained: main } } as typeof agents;
    const trees = await loadTrees(store, { ...config, agents: trained }, { step: 0 });
    return trees.map((tree) => tags(tree).filter((text) => text.includes("learns nothing")));
  };
  const ofMain = "'main' learns nothing: every rollout was truncated and is masked";
  expect(await signals(false)).toEqual([[], []]);
  expect(await signals(true)).toEqual([[ofMain], []]);
});

test("a group whose rollout has lost an invocation is shown without that rollout's conversation", async () => {
  const store = await storeOfFinishedRun();
  const [kept] = await loadTrees(store, config, { step: 0, group: 0 });
  const search = { text: "a", filter: "any" as const, from: 0 };
  expect(tags(kept?.children[0])).toContain("correct");
  expect((await searchStep(store, config, 0, search, () => undefined)).hits).toHaveLength(1);
  const outcome = await readOutcome(store, FIRST_ROLLOUT);
  const [ref = expect.fail()] = outcome?.status === "finished" ? outcome.invocations : [];
  await store.objects.delete([ref.key]);
  const [tree] = await loadTrees(store, config, { step: 0, group: 0 });
  expect(tags(tree?.children[0])).toEqual(["its conversation has expired"]);
  expect(tree?.children.slice(1)).toEqual(kept?.children.slice(1));
  expect((await searchStep(store, config, 0, search, () => undefined)).hits).toEqual([]);
});

test("a rollout that was excluded for a damaged record does not hide its group; a damaged record of a scored rollout is an error", async () => {
  const store = memoryStore();
  await store.objects.commit(objectKeys.outcome(FIRST_ROLLOUT), new TextEncoder().encode("damaged"));
  const [first = expect.fail(), ...others] = finishedRun.groups;
  const excluded = { ...first, rollouts: { ...first.rollouts, "0": { excluded: "damaged: not JSON" } } };
  await fillFinishedRun(store, { ...finishedRun, groups: [excluded, ...others] });
  const [tree] = await loadTrees(store, config, { step: 0, group: 0 });
  expect(tags(tree?.children[0])).toEqual(["excluded: damaged: not JSON"]);
  expect((await searchStep(store, config, 0, { text: "a", filter: "any", from: 0 }, () => undefined)).hits).toEqual([]);
  expect(await readTracedRollouts(store, config, 0)).toEqual([]);

  const scored = memoryStore();
  await scored.objects.commit(objectKeys.outcome(FIRST_ROLLOUT), new TextEncoder().encode("damaged"));
  await fillFinishedRun(scored);
  await expect(loadTrees(scored, config, { step: 0, group: 0 })).rejects.toMatchObject({ code: "record-damaged" });
});

test("a step with an expired group has no summary, and the group is reported as expired, not as unknown", async () => {
  const store = memoryStore();
  await fillFinishedRun(store, { ...finishedRun, groups: finishedRun.groups.slice(1) });
  expect(await readSummary(await storeOfFinishedRun(), config, 0, null)).toMatchObject({ rollouts: 3, correct: 2 / 3 });
  expect(await readSummary(store, config, 0, null)).toBeUndefined();
  await expect(loadTrees(store, config, { step: 0, group: 0 })).rejects.toThrow("group 0/0 has expired");
});

test("a group or a rollout is shown without reading the step's other groups", async () => {
  const store = await storeOfFinishedRun();
  const read = new Set<string>();
  const getAll: Table["getAll"] = (keys) => {
    for (const { pk } of keys) read.add(pk);
    return store.table.getAll(keys);
  };
  const watched = { ...store, table: { ...store.table, getAll } };
  await loadTrees(watched, config, { step: 0, group: 1 });
  await loadTrees(watched, config, { step: 0, group: 1, rollout: 0 });
  expect([...read].filter((pk) => pk.startsWith("GROUP#"))).toEqual([tableKeys.group(config.run, 0, 1).pk]);
});

test("a recipe's note on a question is shown once in its group's tree, and once in the tree of a single rollout", async () => {
  const load = async (address: Parameters<typeof loadTrees>[2]) =>
    loadTrees(await storeOfFinishedRun(), config, address, () => "facts are <shuffled>");
  for (const address of [{ step: 0 }, { step: 0, group: 0, rollout: 0 }]) {
    const [tree = expect.fail()] = await load(address);
    expect(drawText(tree).match(/note: facts are <shuffled>/g)).toHaveLength(1);
  }
});

/** The finished run, as a source. */
async function sourceOfFinishedRun(): Promise<Source> {
  const store = await storeOfFinishedRun();
  return {
    ...{ config, state: "finished", reason: "", step: 1, evaluations: [], folder: "." },
    summaries: async () => [],
    read: (read) => read(store),
  };
}

test("the evaluations of steps whose scores have expired are shown", async () => {
  const [suite = expect.fail()] = config.evaluation.suites;
  const evaluations = [0, 2, 3].map((team) => evaluationOf(suite, job("sampled", team, 5)));
  const ofFirst = summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), null);
  const source = { ...(await sourceOfFinishedRun()), step: 3, evaluations };
  const shown = async (kept: readonly number[]) => {
    const summaries = async () => kept.map((step) => ({ ...ofFirst, step }));
    const lines = parsedLines(await printedBy(() => showSteps({ ...source, summaries })));
    return lines.map(({ kind, evaluation }) => (evaluation as TeamEvaluation | undefined)?.team ?? kind).slice(0, 5);
  };
  expect(await shown([2])).toEqual([0, 2, "note", "step", 3]);
  expect(await shown([])).toEqual([0, 2, 3, "note", "state"]);
});

test("without a terminal too, a halted run says where it stands and why it was halted", async () => {
  const halted = { ...(await sourceOfFinishedRun()), state: "halted" as const, reason: "the judge refused" };
  const lines = parsedLines(await printedBy(() => showSteps(halted)));
  const state = { kind: "state", state: "halted", step: 1, steps: config.steps, reason: "the judge refused" };
  expect(lines).toContainEqual(state);
});

/** The views that an exported page holds, and the rest of the page. */
function partsOf(page: string) {
  const [, views = ""] = /<script type="application\/json" id="views">(.*?)<\/script>/s.exec(page) ?? [];
  return { views: Export.parse(JSON.parse(views)).views, rest: page.replace(views, "") };
}

test("an exported page holds its views, and is under 300 KB without them", async () => {
  const source = await sourceOfFinishedRun();
  const path = `/api/runs/${config.run}/steps/0`;
  const ofStep = partsOf(await exportPage(source, { step: 0 }));
  expect(Object.keys(ofStep.views).sort()).toEqual([path, `${path}/0`, `${path}/1`, `${path}/timeline`]);
  expect(StepView.parse(ofStep.views[path]).groups).toHaveLength(2);
  expect(GroupView.parse(ofStep.views[`${path}/1`]).trees).toHaveLength(2);
  expect(ofStep.rest.length).toBeLessThan(300_000);
  // The store lacks the manifest of the rollout's version, which names the tokenizer, so the page has no tokens.
  const ofRollout = partsOf(await exportPage(source, { step: 0, group: 0, rollout: 0 }));
  expect(Object.keys(ofRollout.views)).toEqual([`${path}/0/0`]);
});

test("the store is opened once for a whole exported page: opening a local run's store takes longer than reading one view", async () => {
  const source = await sourceOfFinishedRun();
  let [open, opened] = [0, 0];
  const read: Source["read"] = async (own) => {
    if (open++ === 0) opened++;
    return source.read(own).finally(() => open--);
  };
  await exportPage({ ...source, read }, { step: 0 });
  expect(opened).toBe(1);
});

test("an exported page runs only its own script, loads nothing, has no text as markup and no folders of the recipe", async () => {
  const own = { ...config, recipe: "/home/ann/mine" };
  const page = await exportPage({ ...(await sourceOfFinishedRun()), config: own }, { step: 0 });
  expect(page).toContain('"about":"mine, mgrpo, seed 1"');
  expect(page).toContain("alert");
  expect(page).not.toMatch(/<script>alert|home\/ann/);
  const [, policy = ""] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
  const plain = policy.replaceAll("&#39;", "'");
  expect(plain).toMatch(/^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; img-src data:/);
  const [, script = ""] = /<script type="module">(.*?)<\/script>/s.exec(page) ?? [];
  expect(plain).toContain(createHash("sha256").update(script).digest("base64"));
});

test("text from a conversation cannot send escape sequences to the terminal", async () => {
  const trees = await loadTrees(await storeOfFinishedRun(), config, { step: 0 });
  const text = trees.map(drawText).join("\n");
  expect(text).toContain("<script>");
  expect(text).not.toContain("\u001b[2J");
});

test("addresses are parsed, and refused if they are malformed or not in the run", async () => {
  expect(parseAddress("12")).toEqual({ step: 12 });
  expect(parseAddress("12/3/5")).toEqual({ step: 12, group: 3, rollout: 5 });
  expect(() => parseAddress("12/x")).toThrow("write a step, step/group or step/group/rollout");
  const store = await storeOfFinishedRun();
  await expect(loadTrees(store, config, { step: 0, group: 7 })).rejects.toThrow("groups 0 to 1, not 7");
  await expect(loadTrees(store, config, { step: 4 })).rejects.toThrow(
    `run '${config.run}' has not begun step 4: steps count from 0`,
  );
});

test("the error for a run that has not begun says how to begin it", async () => {
  await expect(readRun(memoryStore(), "early")).rejects.toThrow(
    `run 'early' has not begun, so its store has no record of it: unless a process is starting it, \`${MGRPO} resume early\` begins it`,
  );
});
