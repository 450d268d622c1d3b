/** @file The conversation of a branch: what followed each turn. The trajectories and counts of branches that share turns. */
import { expect, test } from "vitest";
import type { AppMessage } from "../../../core/contracts/app-chat.ts";
import { type Branch, countsOf, type SampledTurn, trajectoriesOf, turnsOf } from "../../../core/gateway/branch.ts";
import type { Exchange } from "../../../core/gateway/message-tree.ts";

const calling = (...names: string[]): SampledTurn => ({
  tokens: [1, 2],
  start: 1,
  logProbs: [0],
  text: "",
  calls: names.map((name) => ({ name, arguments: {} })),
  unparsed: 0,
  isCut: false,
});

/** The responses of a turn, as names and texts, if the app then sends these messages. */
function responsesTo(turn: SampledTurn, added: readonly AppMessage[]) {
  const asked: AppMessage = { role: "user", text: "q" };
  const first: Exchange<SampledTurn> = {
    ...{ id: "1", parent: undefined, depth: 0, variant: "" },
    ...{ added: [asked], messages: [asked], turn },
  };
  const messages: AppMessage[] = [asked, { role: "assistant", text: "", calls: [] }, ...added];
  const second: Exchange<SampledTurn> = {
    ...{ id: "2", parent: first, depth: 1, variant: "" },
    ...{ added, messages, turn: calling() },
  };
  return turnsOf([first, second])[0]?.responses.map(({ name, text }) => [name, text]);
}

test("a response has the name of the call that it answers, even if that call is in a reply that the app wrote", () => {
  const added: AppMessage[] = [
    { role: "tool", call: 1, text: "found" },
    { role: "assistant", text: "so", calls: [{ id: "a", name: "visit", arguments: "{}" }] },
    { role: "tool", call: 0, text: "opened" },
    { role: "user", text: "go on" },
  ];
  expect(responsesTo(calling("delegate", "search"), added)).toEqual([
    ["search", "found"],
    ["assistant", "so"],
    ["visit", "opened"],
    ["user", "go on"],
  ]);
});

/** An exchange whose turn consists of the last of these tokens. */
function sampled(id: string, tokens: readonly number[], turn: Partial<SampledTurn> = {}): Exchange<SampledTurn> {
  const start = tokens.length - 1;
  const own = { ...calling(), tokens, start, logProbs: [-start], ...turn };
  return { ...{ id, parent: undefined, depth: 0, variant: "" }, ...{ added: [], messages: [], turn: own } };
}

test("a turn that branches share is trained on once, in the first of them, and counted once; a branch without a turn of its own has no trajectory", () => {
  const trunk = sampled("trunk", [1, 2], { isCut: true, unparsed: 1 });
  const branches = [[trunk, sampled("left", [1, 2, 3, 4])], [trunk, sampled("right", [1, 2, 5, 6])], [trunk]];
  const about = { agent: "main", version: 3 };
  expect(trajectoriesOf("main", 3, branches)).toEqual([
    {
      ...about,
      tokens: [1, 2, 3, 4],
      actions: [
        [1, 2],
        [3, 4],
      ],
      logProbs: [-1, -3],
    },
    { ...about, tokens: [1, 2, 5, 6], actions: [[3, 4]], logProbs: [-3] },
  ]);
  expect(countsOf(branches)).toEqual({ branches: 3, rewritten: 0, unparsed: 1, cut: 1 });
});

test("replies with which all conversations begin are the app's examples; any other that the agent did not give is rewritten history", () => {
  const reply = (text: string): AppMessage => ({ role: "assistant", text, calls: [] });
  const root = (id: string, ...added: AppMessage[]) => ({ ...sampled(id, [1, 2]), added });
  const shown = reply("yes");
  const [one, two] = [root("one", shown), root("two", shown)];
  const later = { ...root("later", reply("edited")), parent: one };
  const count = (...branches: Branch[]) => countsOf(branches).rewritten;
  expect(count([one], [two])).toBe(0);
  expect(count([one, later], [two])).toBe(1);
  expect(count([root("bare")], [one])).toBe(1);
  expect(count([one], [root("edited", shown, reply("edited"))])).toBe(1);
});
