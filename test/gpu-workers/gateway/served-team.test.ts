/** @file A trained team behind the APIs: calls in a request's messages are written as the model writes its own. */
import { expect, test } from "vitest";
import type { TurnRequest } from "../../../core/contracts/app-chat.ts";
import { servedTeam } from "../../../gpu-workers/gateway/served-team.ts";
import { type RecordedSample, scriptedAgent, tokenizer } from "./harness.ts";

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
    stopTexts: [],
    variant: "",
  };
  const unset = { temperature: undefined, topP: undefined, seed: undefined };
  await team.turn("main", request, new AbortController().signal, unset);
  expect(tokenizer.decode(samples[0]?.request.tokens ?? [])).toContain(`{"name": "note", "arguments": ${shown}}`);
});
