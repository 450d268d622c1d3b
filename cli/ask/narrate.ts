/**
 * @file Shows a team's turns as they happen: as a tree on a terminal, as one JSON object per line anywhere else.
 *
 *     main  <question>
 *     ├─ delegate → searcher  <subtask>
 *     │  ├─ search  {"query":"…"}
 *     │  │    <response>
 *     │  └─ answer  <report>
 *     └─ answer  <answer>
 */
import type { ConversationProgress } from "../../gpu-workers/rollouts/converse.ts";
import type { Tree } from "../../ui/views.ts";
import { drawBranch } from "../show/text.ts";
import type { ConversationSource, OnProgress } from "./answer.ts";

export function asLines(write: (line: string) => void): OnProgress {
  return ({ agent, call }, progress) => {
    const { kind, ...content } = eventOf(progress);
    write(JSON.stringify({ kind, agent, ...(call !== undefined && { call }), ...content }));
  };
}

function eventOf(progress: ConversationProgress): { kind: string } & Record<string, unknown> {
  switch (progress.kind) {
    case "asked":
      return progress;
    case "said":
      return { kind: "said", text: progress.turn.text };
    case "answered": {
      const { call, response } = progress;
      return { kind: "answered", name: call.name, arguments: call.arguments, text: response.text };
    }
    case "ended": {
      const { stop, answer, fault } = progress.conversation;
      return { kind: "ended", stop, answer, fault };
    }
  }
}

/** Numbers distinguish concurrent delegations. */
export function asTree(write: (line: string) => void): OnProgress {
  const open = new Set<number>();
  const draw = ({ call }: ConversationSource, tree: Omit<Tree, "children">, last = false) => {
    const mark = call !== undefined && open.size > 1 ? `${call + 1}· ` : "";
    const node = { ...tree, title: mark + tree.title, children: [] };
    for (const line of drawBranch(node, call === undefined ? "" : "│  ", last)) write(line);
  };
  return (source, progress) => {
    switch (progress.kind) {
      case "asked":
        if (source.call === undefined) write(source.agent);
        else {
          open.add(source.call);
          draw({ ...source, call: undefined }, delegated(source.call, source.agent, progress.prompt));
        }
        return;
      case "said":
        if (thoughtsOf(progress.turn.text) !== "")
          draw(source, { title: "…", tags: [], body: thoughtsOf(progress.turn.text) });
        return;
      case "answered":
        // A report is drawn at the end of its own conversation.
        if (progress.response.invocation !== undefined) return;
        draw(source, {
          title: progress.call.name,
          tags: [{ text: JSON.stringify(progress.call.arguments), tone: "plain" }],
          body: progress.response.text,
        });
        return;
      case "ended":
        draw(source, ending(progress.conversation), true);
        if (source.call !== undefined) open.delete(source.call);
    }
  };
}

function delegated(call: number, agent: string, task: string): Omit<Tree, "children"> {
  return { title: `delegate ${call + 1} → ${agent}`, tags: [{ text: task, tone: "plain" }] };
}

function ending({
  answer,
  stop,
  fault,
}: Extract<ConversationProgress, { kind: "ended" }>["conversation"]): Omit<Tree, "children"> {
  if (answer !== null) return { title: "answer", tags: [{ text: answer, tone: "good" }] };
  return { title: stop, tags: [{ text: fault ?? "no answer", tone: "bad" }] };
}

/** The text of a turn without its calls and its answer, which are drawn separately. */
function thoughtsOf(text: string): string {
  return text
    .replace(/<tool_call>.*?<\/tool_call>/gs, "")
    .replace(/<answer>.*?<\/answer>/gs, "")
    .replace(/<\/?think>/g, "")
    .trim();
}
