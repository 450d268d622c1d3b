/** @file What `mgrpo dev` warns of, computed from records of a group and its rollouts. */
import { expect, test } from "vitest";
import { groupWarnings } from "../../cli/dev/warnings.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { AgentBatch, GroupRecord } from "../../core/contracts/records.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";

test("agents that were never called: a warning names the main agent only with an app, and mentions training only for a trained agent", () => {
  const share = { branches: 0, sampledTokens: 0, rewards: [], advantages: [], trainedTokens: 0 };
  const shares = [
    { agent: "main", trained: true, ...share },
    { agent: "searcher", trained: true, ...share },
    { agent: "frozen", trained: false, ...share },
  ];
  const lost = { excluded: "no answer" };
  const group = { rollouts: { "0": lost, "1": lost }, finalized: {} } as unknown as GroupRecord;
  const conversation = { prompt: "?", turns: [], stop: "malformed", answer: null, fault: "no answer" };
  const outcomeOf = (status: string) => ({ status, conversation }) as unknown as Outcome;
  const warningsFor = (runner: "native" | "recipe", status = "finished", called: string[] = []) => {
    const rollouts = [{ outcome: outcomeOf(status), invocations: new Map() }];
    const requests = { offered: new Map(), called: new Set(called) };
    const tried = { group, rollouts, trees: [], ...requests, thrown: [], gatewayWarnings: [], halted: undefined };
    const all = groupWarnings({ agents: {}, main: "main", runner }, tried, shares);
    return all.filter((one) => /never called|was accepted/.test(one));
  };
  const subs = ["'searcher' was never called: no rollout would train it", "'frozen' was never called"];
  expect(warningsFor("native")).toEqual(subs);
  const main = "no request to 'main' was accepted: does the app use its base URL and model?";
  expect(warningsFor("recipe")).toEqual([main, ...subs]);
  // Whether lost rollouts called sub-agents is not known.
  expect(warningsFor("native", "failed")).toEqual([]);
  expect(warningsFor("recipe", "failed")).toEqual([main]);
  // The app called the main agent, and failed later.
  expect(warningsFor("recipe", "failed", ["main"])).toEqual([]);
});

test("turn rewards are a signal even if all rollout rewards are equal; a group without a batch is reported as masked; nothing is said of a frozen main agent", () => {
  const equal: AgentBatch = {
    ...{ trajectories: ["0", "1"], weights: [0.5], advantages: [0, 0], mean: 0.5, std: 0 },
    ...{ duplicated: 0, dropped: 0 },
  };
  const score = { reward: 0.5, correct: 0, wellFormed: true, tokens: 9, invocations: {} };
  const warningsFor = (main?: AgentBatch, trained = true) => {
    const group = { rollouts: { "0": score, "1": score }, finalized: main ? { main } : {} } as unknown as GroupRecord;
    const tried = {
      group,
      rollouts: [],
      trees: [],
      offered: new Map(),
      called: new Set<string>(),
      thrown: [],
      gatewayWarnings: [],
      halted: undefined,
    };
    const agents = { main: AgentConfig.parse({ model: "models/main", trained }) };
    return groupWarnings({ agents, main: "main", runner: "native" }, tried, []);
  };
  expect(warningsFor(equal)).toEqual([expect.stringMatching(/^no variance: all 2 rollouts have reward 0\.500/)]);
  expect(warningsFor({ ...equal, turns: [[0.5], [-0.5]] })).toEqual([]);
  expect(warningsFor()).toEqual([
    "nothing to train on: every rollout of 'main' was cut off at a limit and is masked (algorithm.overlong)",
  ]);
  expect([equal, undefined].flatMap((batch) => warningsFor(batch, false))).toEqual([]);
});

test.each([
  [1, "native", "in 1 reply of 'main', a tool call could not be parsed and was left as text"],
  [2, "recipe", "in 2 replies of 'main', a tool call could not be parsed and was left as text"],
] as const)("%i unparsed and cut replies (%s): the advice names max_tokens only with an app", (n, runner, unparsed) => {
  const counts = { main: { branches: 1, rewritten: 0, unparsed: n, cut: n } };
  const conversation = { prompt: "?", turns: [], stop: "token-limit", answer: "a", fault: null };
  const outcome = { status: "finished", conversation, app: { branches: [], counts } } as unknown as Outcome;
  const group = { rollouts: {}, finalized: {} } as unknown as GroupRecord;
  const rollouts = [{ outcome, invocations: new Map() }];
  const tried = {
    group,
    rollouts,
    trees: [],
    offered: new Map(),
    called: new Set<string>(),
    thrown: [],
    gatewayWarnings: [],
    halted: undefined,
  };
  const counted = { branches: 1, sampledTokens: 9, rewards: [], advantages: [], trainedTokens: 0 };
  const shares = [{ agent: "main", trained: true, ...counted }];
  const found = groupWarnings({ agents: {}, main: "main", runner }, tried, shares);
  expect(found).toContain(unparsed);
  const advice = runner === "recipe" ? /contextTokens \(.*\), or the app's max_tokens$/ : /contextTokens \(.*\)$/;
  expect(found.at(-1)).toMatch(advice);
});

test("what an app threw is shown with its file's path, not with the compiled text that tsx loaded", () => {
  const error = new Error("a bug");
  error.stack = "Error: a bug\n    at f (data:text/javascript,let%20f?filePath=%2Fteam%2Frollout.ts:2:89)";
  const group = { rollouts: {}, finalized: {} } as unknown as GroupRecord;
  const requests = { offered: new Map(), called: new Set<string>(), gatewayWarnings: [], halted: undefined };
  const tried = { group, rollouts: [], trees: [], ...requests, thrown: [{ what: "the app threw", error }] };
  const [thrown] = groupWarnings({ agents: {}, main: "main", runner: "recipe" }, tried, []);
  expect(thrown).toBe("the app threw: Error: a bug\n    at f (/team/rollout.ts)");
});
