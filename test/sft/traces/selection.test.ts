/** @file Which conversations `--agent`, `--where` and a score select. */
import { expect, test } from "vitest";
import type { TraceImportOptions } from "../../../sft/traces/import.ts";
import type { JsonValue } from "../../../sft/traces/json.ts";
import { calls, chat, keyValues, responds, span, spans, textMessage } from "../../fixtures/traces.ts";
import { ANSWER, chatTrace, imported, QUESTION, roles } from "./imported.ts";

test("--agent and --where select conversations, --agent also those that name no agent; --as renames the agent", () => {
  const agent = (name: string) => ({ "gen_ai.agent.name": name });
  const document = {
    resourceSpans: [
      {
        resource: {
          attributes: keyValues({ "deployment.environment.name": "prod", "agent.name": "opentelemetry/java" }),
        },
        scopeSpans: [
          {
            spans: [
              span({
                id: "1",
                attributes: chat([QUESTION], [textMessage("assistant", "1")], { ...agent("a"), tags: ["x", "y"] }),
              }),
              span({ id: "2", attributes: chat([QUESTION], [textMessage("assistant", "2")], agent("b")) }),
              span({ id: "3", attributes: chat([QUESTION], [textMessage("assistant", "3")]) }),
            ],
          },
        ],
      },
    ],
  };
  const answers = (options: Partial<TraceImportOptions>) =>
    imported(document, options).lines.map(({ agent, messages }) => [agent, messages.at(-1)?.content]);
  expect(answers({ agent: "a" })).toEqual([
    ["a", "1"],
    ["a", "3"],
  ]);
  expect(answers({ agent: "b", as: "main" })).toEqual([
    ["main", "2"],
    ["main", "3"],
  ]);
  expect(answers({ conditions: [{ attribute: "tags", value: "y" }] })).toEqual([["a", "1"]]);
  expect(answers({ conditions: [{ attribute: "deployment.environment.name", value: "prod" }] })).toHaveLength(3);
  expect(answers({ conditions: [{ attribute: "tags", value: "z" }] })).toEqual([]);
});

test("--where compares all digits of an integer, even of one that a number would round", () => {
  const text = JSON.stringify(chatTrace([QUESTION], [ANSWER], { "user.id": 7 })).replace(
    '"7"',
    '"1234567890123456789"',
  );
  const taken = (value: string) =>
    imported(JSON.parse(text), { conditions: [{ attribute: "user.id", value }] }).lines.length;
  expect([taken("1234567890123456789"), taken("1234567890123456800")]).toEqual([1, 0]);
});

test("the score comes from the last call that has one, on its own span or an enclosing one", () => {
  const history = [QUESTION, calls("a", "x"), responds("a", "y")];
  const evaluation = {
    name: "gen_ai.evaluation.result",
    attributes: { "gen_ai.evaluation.name": "Relevance", "gen_ai.evaluation.score.value": 4 },
  };
  const document = spans(
    span({ trace: "1", id: "1", attributes: chat([QUESTION], [calls("a", "x")], { feedback: 1 }) }),
    span({ trace: "1", id: "2", attributes: chat(history, [ANSWER]) }),
    span({ trace: "2", id: "3", attributes: { feedback: "-1" }, events: [evaluation] }),
    span({ trace: "2", id: "4", parent: "3", attributes: chat([QUESTION], [textMessage("assistant", "No.")]) }),
    // Number(" ") is 0, but a blank is not a score.
    span({
      trace: "3",
      id: "5",
      attributes: chat([QUESTION], [textMessage("assistant", "Who knows.")], { feedback: " " }),
    }),
    span({ trace: "4", id: "6", attributes: chat([QUESTION], [calls("b", "z")], { feedback: -1 }) }),
    span({
      ...{ trace: "4", id: "7" },
      attributes: chat([QUESTION, calls("b", "z"), responds("b", "y")], [textMessage("assistant", "Found.")], {
        feedback: 1,
      }),
    }),
  );
  const taken = (name: string, min: number) => {
    const { lines, skipped } = imported(document, { score: { name, min } });
    return [lines.map(({ messages }) => messages.at(-1)?.content), skipped];
  };
  expect(taken("feedback", 0)).toEqual([["Here.", "Found."], { "feedback is below 0": 1, "no feedback": 1 }]);
  expect(taken("feedback", -1)).toEqual([["Here.", "No.", "Found."], { "no feedback": 1 }]);
  expect(taken("Relevance", 4)).toEqual([["No."], { "no Relevance": 3 }]);
});

test("the score of a later answer does not count for the first", () => {
  const second = chat([QUESTION, ANSWER, textMessage("user", "Sure?")], [textMessage("assistant", "Yes.")], {
    feedback: 1,
  });
  const first = (feedback: Record<string, JsonValue>) =>
    span({ id: "1", attributes: chat([QUESTION], [ANSWER], feedback) });
  const taken = (feedback: Record<string, JsonValue>) =>
    imported(spans(first(feedback), span({ id: "2", attributes: second })), { score: { name: "feedback", min: 1 } });
  expect(taken({}).lines).toEqual([]);
  expect(taken({}).skipped).toEqual({ "no feedback of the answer to the first prompt": 1 });
  expect(taken({ feedback: 0 }).lines).toEqual([]);
  expect(taken({ feedback: 1 }).lines.map(roles)).toEqual(["user assistant"]);
});
