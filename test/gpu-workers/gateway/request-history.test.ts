/** @file The conversation in a request, built message by message. */
import { expect, test } from "vitest";
import type { AppMessage } from "../../../core/contracts/app-chat.ts";
import { callOf, History } from "../../../gpu-workers/gateway/api/history.ts";

const lookup = (id: string) => callOf(id, "lookup", "{}");

test("a turn of many calls and responses is read in linear time", () => {
  const history = new History();
  const ids = Array.from({ length: 40_000 }, (_, i) => `c${i}`);
  for (const id of ids) history.call(lookup(id));
  for (const id of ids.toReversed()) history.respond(id, id, "input");
  const [turn, ...responses] = history.messages();
  expect(turn).toEqual({ role: "assistant", text: "", calls: ids.map(lookup) });
  expect(responses).toEqual(ids.map((text, call) => ({ role: "tool", call, text })));
}, 5_000);

test("a call that continues earlier messages leaves those as they were; of calls with the same id, responses belong to the first", () => {
  const reply: AppMessage = { role: "assistant", text: "", calls: [lookup("a"), lookup("a")] };
  const before: AppMessage[] = [{ role: "user", text: "?" }, reply];
  const history = new History(before);
  history.call(lookup("b"));
  history.respond("b", "of b", "input");
  history.respond("a", "of a", "input");
  expect(history.messages()).toEqual([
    { role: "user", text: "?" },
    { ...reply, calls: ["a", "a", "b"].map(lookup) },
    { role: "tool", call: 0, text: "of a" },
    { role: "tool", call: 2, text: "of b" },
  ]);
  expect(reply.calls).toHaveLength(2);
});
