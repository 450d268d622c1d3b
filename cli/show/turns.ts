/** @file The turns of a conversation as a tree: calls, responses, what sub-agents did, and the end. */
import type { Conversation, Turn } from "../../core/contracts/conversation.ts";
import type { Invocation } from "../../core/contracts/rollout.ts";
import type { TurnLatency } from "../../core/contracts/telemetry.ts";
import { callKey, placeInvocations, responsesOf } from "../../core/monitoring/placement.ts";
import type { Tag, Tree } from "../../ui/views.ts";
import { plain } from "./plain-tag.ts";

export interface TurnTrees {
  /** The turns of each branch, with what they led to. */
  readonly branches: readonly (readonly Tree[])[];
  /** The conversations of sub-agents that no turn explains. */
  readonly rest: readonly Tree[];
}

/** @param latencies of the turns of all branches, in order, as far as they are known. */
export function turnTrees(
  branches: readonly (readonly Turn[])[],
  invocations: ReadonlyMap<string, Invocation>,
  treeOf: (id: string) => Tree | undefined,
  latencies: readonly TurnLatency[] = [],
): TurnTrees {
  const { ofCall, ofTurn, left } = placeInvocations(branches.flat(), invocations);
  const treesOf = (ids: readonly string[] = []) => ids.flatMap((id) => treeOf(id) ?? []);
  const before = branches.map((_, i) => branches.slice(0, i).flat().length);
  const unplaced = treesOf(left);
  const rest = { title: "sub-agents", tags: [{ text: "no turn names their tasks", tone: "faint" as const }] };
  return {
    branches: branches.map((turns, branch) =>
      turns.map((turn, i) => {
        const at = (before[branch] ?? 0) + i;
        const placed = (call: number | undefined) =>
          treesOf(call === undefined ? ofTurn.get(at) : ofCall.get(callKey(at, call)));
        return turnTree(turn, i, treeOf, placed, latencies[at]);
      }),
    ),
    rest: unplaced.length > 0 ? [{ ...rest, children: unplaced }] : [],
  };
}

/** `placed(i)`: the conversations that call i led to; `placed(undefined)`: those that the turn's text led to. */
function turnTree(
  turn: Turn,
  index: number,
  treeOf: (id: string) => Tree | undefined,
  placed: (call: number | undefined) => readonly Tree[],
  latency: TurnLatency | undefined,
): Tree {
  const { byCall, rest } = responsesOf(turn);
  return {
    title: `turn ${index + 1}`,
    tags: secondsTags(latency?.sampling, "sampled in "),
    body: turn.text,
    children: [
      ...turn.calls.map((call, i) => {
        const response = byCall[i];
        const delegated = response?.invocation === undefined ? undefined : treeOf(response.invocation);
        const seconds = secondsTags(latency?.calls[i]);
        if (delegated) return { ...delegated, tags: [...delegated.tags, ...seconds] };
        return {
          title: call.name,
          tags: [plain(JSON.stringify(call.arguments)), ...seconds],
          ...(response && { body: response.text }),
          folded: true,
          children: placed(i),
        };
      }),
      ...placed(undefined),
      ...rest.map(({ name, text }) => ({ title: name, tags: [], body: text, folded: true, children: [] })),
    ],
  };
}

const secondsTags = (seconds: number | undefined, before = ""): Tag[] =>
  seconds === undefined ? [] : [{ text: `${before}${seconds.toFixed(2)} s`, tone: "faint" }];

/** The conversation's answer, or why it has none. `reference`: shown next to it unless empty. */
export function ending(conversation: Conversation, reference: string): Tree {
  const references: Tag[] = reference === "" ? [] : [{ text: reference, tone: "faint" }];
  if (conversation.answer !== null)
    return { title: "answer", tags: [plain(conversation.answer), ...references], children: [] };
  return {
    title: conversation.stop,
    tags: [{ text: conversation.fault ?? "no answer", tone: "bad" }, ...references],
    children: [],
  };
}
