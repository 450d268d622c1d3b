/** @file A trained team behind the APIs: how past calls and tool responses are shown to the model, and at which temperature it samples. */
import { expect, test } from "vitest";
import type { TurnRequest } from "../../../core/contracts/app-chat.ts";
import { CUT_MARK } from "../../../core/conversation/special-tokens.ts";
import type { RequestedSampling } from "../../../gpu-workers/gateway/api/dialect.ts";
import { servedTeam } from "../../../gpu-workers/gateway/served-team.ts";
import { type RecordedSample, scriptedAgent, tokenizer } from "./harness.ts";

const UNSET: RequestedSampling = { temperature: undefined, topP: undefined, seed: undefined };

test.each([
  ['{"id":9007199254740993,"at":1.0}', '{"id": 9007199254740993, "at": 1.0}'],
  ['{"b":[1,{"2":"x","1":null}],"a":{}}', '{"b": [1, {"2": "x", "1": null}], "a": {}}'],
  ['{ "text" : "caf\\u00e9, \\"a:b\\"" }', '{"text": "café, \\"a:b\\""}'],
  ["not JSON", "not JSON"],
])("the arguments %s are shown to the model as %s", async (given, shown) => {
  const samples: RecordedSample[] = [];
  const team = servedTeam(new Map([["main", scriptedAgent("main", samples)]]), 1);
  const request: TurnRequest = {
    messages: [
      { role: "user", text: "take a note" },
      { role: "assistant", text: "", calls: [{ id: "c1", name: "note", arguments: given }] },
      { role: "tool", call: 0, text: "noted" },
    ],
    tools: [],
    mayCall: true,
    stopStrings: [],
    variant: "",
  };
  await team.turn("main", request, new AbortController().signal, UNSET);
  expect(tokenizer.decode(samples[0]?.request.tokens ?? [])).toContain(`{"name": "note", "arguments": ${shown}}`);
});

test("a tool response is cut to responseCharacters, as in training; one that still exceeds contextTokens is refused", async () => {
  const limits = { turns: 8, turnTokens: 100, contextTokens: 400, responseCharacters: 5 };
  const answerTo = async (response: string, more: object = {}) => {
    const samples: RecordedSample[] = [];
    const config = { limits: { ...limits, ...more } };
    const team = servedTeam(new Map([["main", scriptedAgent("main", samples, { config })]]), 1);
    const call = { id: "c1", name: "note", arguments: "{}" };
    const request: TurnRequest = {
      messages: [
        { role: "user", text: "take a note" },
        { role: "assistant", text: "", calls: [call] },
        { role: "tool", call: 0, text: response },
      ],
      ...{ tools: [], mayCall: true, stopStrings: [], variant: "" },
    };
    return (await team.turn("main", request, new AbortController().signal, UNSET)).text;
  };
  expect(await answerTo("0123456789".repeat(1000))).toBe(`<answer>01234${CUT_MARK}</answer>`);
  const whole = { responseCharacters: Number.MAX_SAFE_INTEGER };
  await expect(answerTo("0123456789".repeat(1000), whole)).rejects.toMatchObject({ code: "context_length_exceeded" });
});

test("the temperature is the request's, else the override, else the agent's own, else that of training", async () => {
  const samples: RecordedSample[] = [];
  const agents = new Map([
    ["main", scriptedAgent("main", samples)],
    ["searcher", scriptedAgent("searcher", samples, { config: { temperature: 0.5 } })],
  ]);
  const request: TurnRequest = {
    messages: [{ role: "user", text: "say hello" }],
    tools: [],
    mayCall: true,
    stopStrings: [],
    variant: "",
  };
  const ask = (team: ReturnType<typeof servedTeam>, agent: string, requested = UNSET) =>
    team.turn(agent, request, new AbortController().signal, requested);
  for (const agent of ["main", "searcher"]) {
    await ask(servedTeam(agents, 1), agent);
    await ask(servedTeam(agents, 1, 0.25), agent);
    await ask(servedTeam(agents, 1, 0.25), agent, { ...UNSET, temperature: 0.75 });
  }
  expect(samples.map(({ request: { sampling } }) => sampling.temperature)).toEqual([1, 0.25, 0.75, 0.5, 0.25, 0.75]);
});
