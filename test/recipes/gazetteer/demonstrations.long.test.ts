/** @file Gazetteer's demonstrations: parsed by the protocol's own parser, correct, within the limits, and without what is held out. */
import { expect, test } from "vitest";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { type LookUp, parseTask, termsOf } from "../../../recipes/atlas/questions/look-up.ts";
import { lookUpKey } from "../../../recipes/atlas/questions/split.ts";
import { demonstrations } from "../../../recipes/gazetteer/demonstrations/demonstrations.ts";
import { COMPARISONS, CONDITIONS, COUNTRY, DESCRIBED, FACTS } from "../../../recipes/gazetteer/questions/phrasings.ts";
import { questionSet } from "../../../recipes/gazetteer/questions/questions.ts";
import { readTask } from "../../../recipes/gazetteer/questions/read-task.ts";
import { recipe } from "../../../recipes/gazetteer/recipe.ts";
import { rewards } from "../../../recipes/gazetteer/rewards.ts";
import { tools } from "../../../recipes/gazetteer/tools.ts";
import { phrasingPattern } from "./phrasings.ts";

const CASES = [
  ["mgrpo", "main", 500],
  ["mgrpo", "searcher", 500],
  ["single-agent", "main", 1000],
] as const;

const agentOf = (arm: "mgrpo" | "single-agent", agent: string) => {
  const config = resolveConfig(recipe, { run: "any", seed: 1, arm }).agents[agent];
  if (!config) throw new Error(agent);
  return { config, toolbox: openToolbox(agent, config, tools) };
};

/** An upper bound for SmolLM2's tokenizer on these texts: their names and punctuation have 2.4 to 4 characters per token. */
const tokens = (text: string): number => Math.ceil(text.length / 2.4);
/** The template's tokens around one message. */
const MESSAGE = 5;

test.each(CASES)(
  "%s %s: every turn of the %i demonstrations parses, within the limits, and only the last answers",
  (arm, agent, count) => {
    const { config, toolbox } = agentOf(arm, agent);
    const { limits } = config;
    const all = [...demonstrations(agent, arm, 5)];
    expect(all).toHaveLength(count);
    for (const { prompt, turns } of all) {
      expect(turns.length).toBeLessThanOrEqual(limits.turns);
      turns.forEach(({ text, responses }, i) => {
        const parsed = parseTurn(text, toolbox, limits.calls);
        expect(parsed.kind, text).toBe(i === turns.length - 1 ? "answer" : "calls");
        expect(responses).toHaveLength(parsed.kind === "calls" ? parsed.calls.length : 0);
        for (const response of responses) expect(response.length).toBeLessThanOrEqual(limits.responseCharacters);
      });
      const messages = [config.system, prompt, ...turns.flatMap(({ text, responses }) => [text, ...responses])];
      const context = messages.reduce((sum, text) => sum + tokens(text) + MESSAGE, 0);
      // A whole conversation is assumed to average 3 characters per token, 1.25 times the 2.4 of `tokens`.
      expect(context, prompt).toBeLessThanOrEqual(1.25 * limits.contextTokens);
    }
  },
);

test("the seed determines the demonstrations; an agent without any is refused", () => {
  const first = (seed: number) => [...demonstrations("main", "mgrpo", seed)].slice(0, 20);
  expect(first(5)).toEqual(first(5));
  expect(first(5)).not.toEqual(first(6));
  expect(() => [...demonstrations("searcher", "single-agent", 1)]).toThrow(/no demonstrations of 'searcher'/);
});

test("no demonstration asks a held-out question or has a held-out phrasing", () => {
  const phrasings = [COUNTRY, DESCRIBED, ...[CONDITIONS, FACTS, COMPARISONS].flatMap(Object.values)];
  const held = phrasings.flatMap((sides) => sides["held-out"].map(phrasingPattern));
  const questions = new Set(questionSet(1).heldOut.map(({ prompt }) => prompt));
  for (const [arm, agent] of CASES) {
    for (const { prompt, turns } of demonstrations(agent, arm, 5)) {
      expect(questions.has(prompt)).toBe(false);
      for (const text of [prompt, ...turns.map((turn) => turn.text)]) {
        expect(
          held.some((phrasing) => phrasing.test(text)),
          text,
        ).toBe(false);
      }
    }
  }
});

test.each(CASES)("%s %s: no look-up of a held-out question is in the demonstrations of three seeds", (arm, agent) => {
  const held = new Set(
    questionSet(1).heldOut.flatMap(({ facts }) => Facts.parse(facts).lookUps.map(({ task }) => task)),
  );
  expect(held.size).toBeGreaterThan(300);
  const heldOut = new Set([...held].map((task) => normalizedKey(parseTask(task) as LookUp)));
  for (const seed of [1, 2, 3]) {
    const all = [...demonstrations(agent, arm, seed)];
    for (const one of all) expectSearchesExplained(one);
    const keys = all.flatMap(lookUpsIn).map(normalizedKey);
    expect(keys.length).toBeGreaterThan(all.length);
    expect(keys.filter((key) => heldOut.has(key))).toEqual([]);
  }
});

/** The values of an argument in all calls. */
const argumentsIn = ({ turns }: Demonstration, name: string): string[] =>
  turns.flatMap(({ text }) =>
    [...text.matchAll(new RegExp(`"${name}": ?"([^"]+)"`, "g"))].map((match) => match[1] ?? ""),
  );

/**
 * The look-ups that a demonstration asks for, and those that it makes itself: about the country that a description led
 * to, whose page is the last that it opens, and the two areas that it compares.
 */
function lookUpsIn(one: Demonstration): LookUp[] {
  const asked = [one.prompt, ...argumentsIn(one, "task")].flatMap(lookUpsAsked);
  const { ask = "country", of } = readTask(one.prompt) ?? {};
  const opened = argumentsIn(one, "title").at(-1);
  const described: LookUp[] =
    ask === "country" || of !== undefined || opened === undefined ? [] : [{ ask, of: opened }];
  const compared = argumentsIn(one, "expression").length > 0 ? argumentsIn(one, "query") : [];
  return [...asked, ...described, ...compared.map((of): LookUp => ({ ask: "area", of }))];
}

/** The look-up that a text asks for; for a fact about a described country, the look-up of that country. */
function lookUpsAsked(text: string): LookUp[] {
  const { ask, of, where } = readTask(text) ?? { ask: "country", where: [] };
  if (ask !== "country" && of !== undefined) return [{ ask, of }];
  return where.length > 0 ? [{ ask: "country", where }] : [];
}

/** In lower case and without "the", which readTask drops before a name. */
const normalized = (text: string): string => text.toLowerCase().replaceAll("the ", "");
const normalizedKey = (lookUp: LookUp): string => normalized(lookUpKey(lookUp));

/** Expects every search to be for the names of one of the look-ups: then `lookUpsIn` misses none. */
function expectSearchesExplained(one: Demonstration): void {
  const keyOf = (names: readonly string[]) => names.map(normalized).sort().join(", ");
  const explained = lookUpsIn(one).map((lookUp) => keyOf(termsOf(lookUp)));
  for (const query of argumentsIn(one, "query")) expect(explained, one.prompt).toContain(keyOf(query.split(", ")));
}

test("every delegated task parses, and the planner's answer is the last response", () => {
  const { toolbox } = agentOf("mgrpo", "main");
  for (const { turns } of demonstrations("main", "mgrpo", 5)) {
    const last = turns.at(-2)?.responses[0];
    expect(turns.at(-1)?.text).toBe(`<answer>${last}</answer>`);
    for (const { text } of turns.slice(0, -1)) {
      const parsed = parseTurn(text, toolbox, 1);
      const call = parsed.kind === "calls" ? parsed.calls[0] : undefined;
      if (call?.name === "delegate") expect(readTask(String(call.arguments["task"])), text).toBeDefined();
    }
  }
});

test("every demonstration of the searcher gets the expert's full score", () => {
  const { toolbox } = agentOf("mgrpo", "searcher");
  const unrelated = { ...(questionSet(1).heldOut[0] as never as Parameters<typeof rewards.expert>[0]), facts: {} };
  const scores = [...demonstrations("searcher", "mgrpo", 5)].map((demonstration) => [
    demonstration.prompt,
    rewards.expert(unrelated, "searcher", asConversation(demonstration, toolbox)),
  ]);
  expect(scores.filter(([, score]) => score !== 1)).toEqual([]);
});

function asConversation({ prompt, turns }: Demonstration, toolbox: ReturnType<typeof openToolbox>) {
  const parsed = turns.map(({ text, responses }) => {
    const turn = parseTurn(text, toolbox, 1);
    const calls = turn.kind === "calls" ? [...turn.calls] : [];
    return { text, calls, responses: responses.map((text, i) => ({ name: calls[i]?.name ?? "", text })) };
  });
  const answer = /<answer>(.*)<\/answer>/.exec(turns.at(-1)?.text ?? "")?.[1] ?? null;
  return { prompt, turns: parsed, stop: "answered" as const, answer, fault: null };
}
