/** @file Which reply a request continues, and which branches are recorded: neither depends on the order in which requests are answered. */
import { expect, test } from "vitest";
import type { AppMessage, AppToolCall, TurnRequest } from "../../../core/contracts/app-chat.ts";
import { MessageTree } from "../../../core/gateway/message-tree.ts";
import type { ToolSchema } from "../../../core/ports.ts";
import { sha256 } from "../../../engine/hash.ts";

const user = (text: string): AppMessage => ({ role: "user", text });
const assistant = (text: string, calls: AppToolCall[] = []): AppMessage => ({ role: "assistant", text, calls });
const asking = (messages: AppMessage[], variant = ""): TurnRequest => ({
  ...{ messages, tools: [], mayCall: true, stopStrings: [], variant },
});
const look: ToolSchema = { type: "function", function: { name: "look", description: "", parameters: {} } };

/** A tree whose agent gives each request the reply that the test names. */
function openTree() {
  const tree = new MessageTree<string>(sha256);
  const place = (request: TurnRequest, shown: readonly ToolSchema[] = []) => tree.place(request, shown);
  return {
    place,
    /** Whether the request continues a reply. */
    continues: (messages: AppMessage[], shown?: readonly ToolSchema[]) =>
      place(asking(messages), shown).parent !== undefined,
    /** Adds the exchange, and returns its id. `isAwaited`: its client waited for the reply. */
    reply(request: TurnRequest, text: string, calls: AppToolCall[] = [], isAwaited = true): string {
      const { id, parent, added } = place(request);
      const { messages, variant } = request;
      const exchange = { id, parent, added, messages, variant, depth: parent ? parent.depth + 1 : 0, turn: text };
      tree.add(exchange, { text, calls }, []);
      if (isAwaited) tree.markContinuable(id);
      return id;
    },
    /** The branches of the delivered exchanges, as ids. */
    branches: (...delivered: string[]) => tree.branches(new Set(delivered)).map((branch) => branch.map(({ id }) => id)),
  };
}

test("a request continues the reply to a request of its own variant, though another variant's reply reads the same", () => {
  const { place, reply } = openTree();
  const [a, b] = ["1", "2"].map((variant) => reply(asking([user("go")], variant), "yes"));
  const next = [user("go"), assistant("yes"), user("on")];
  expect(place(asking(next, "1")).parent?.id).toBe(a);
  expect(place(asking(next, "2")).parent?.id).toBe(b);
});

test("if several replies read the same and none is to a request of this variant, the same one is continued, whichever came first", () => {
  const next = asking([user("go"), assistant("yes"), user("on")]);
  const continued = [
    ["1", "2"],
    ["2", "1"],
  ].map((variants) => {
    const { place, reply } = openTree();
    for (const variant of variants) reply(asking([user("go")], variant), "yes");
    return place(next).parent?.id;
  });
  expect(continued[0]).toBeDefined();
  expect(continued[1]).toBe(continued[0]);
});

test("a client may change ids of calls, how the JSON of their arguments is written and the whitespace around an assistant's text, and nothing else", () => {
  const { reply, continues } = openTree();
  const call = { id: "call_1", name: "look", arguments: '{"at":1.0,"word":"amber"}' };
  reply(asking([user("go")]), "so", [call]);
  const after = (text: string, written: Partial<AppToolCall>) =>
    continues([user("go"), assistant(text, [{ ...call, ...written }]), { role: "tool", call: 0, text: "found" }]);
  expect(after(" so\n", { id: "other", arguments: '{ "word": "amber", "at": 1 }' })).toBe(true);
  expect(after("so!", {})).toBe(false);
  expect(after("so", { name: "visit" })).toBe(false);
  expect(after("so", { arguments: '{"at":2,"word":"amber"}' })).toBe(false);
  expect(continues([user("go "), assistant("so", [call]), user("on")])).toBe(false);
});

test("with other tools, the same messages are another history", () => {
  const { reply, continues } = openTree();
  reply(asking([user("go")]), "yes");
  const next = [user("go"), assistant("yes"), user("on")];
  expect(continues(next, [look])).toBe(false);
  expect(continues(next)).toBe(true);
});

test("a reply that its client did not wait for is not continued", () => {
  const { reply, continues } = openTree();
  reply(asking([user("go")]), "yes", [], false);
  expect(continues([user("go"), assistant("yes"), user("on")])).toBe(false);
});

test("an undelivered reply is recorded only if a delivered one continues it, directly or later in its branch", () => {
  const { reply, branches } = openTree();
  const first = [user("go")];
  const second = [...first, assistant("one"), user("on")];
  const a = reply(asking(first), "one");
  const b = reply(asking(second), "two");
  const c = reply(asking([...second, assistant("two"), user("on")]), "three");
  expect(branches(a)).toEqual([[a]]);
  expect(branches(b)).toEqual([[a, b]]);
  expect(branches(c)).toEqual([[a, b, c]]);
  expect(branches(a, c)).toEqual([[a, b, c]]);
  expect(branches()).toEqual([]);
});

test("branches with a shorter history come first, and the order does not depend on which reply came first", () => {
  const words = ["left", "right", "up", "down"];
  const inOrder = (order: readonly string[]) => {
    const { reply, branches } = openTree();
    const long = reply(asking([{ role: "system", text: "be short" }, user("go")]), "yes");
    const ids = order.map((word) => reply(asking([user(word)]), "yes"));
    return { long, order: branches(long, ...ids) };
  };
  const { long, order } = inOrder(words);
  expect(order.at(-1)).toEqual([long]);
  expect(order).toHaveLength(5);
  expect(inOrder(words.toReversed()).order).toEqual(order);
});
