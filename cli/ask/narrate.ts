/**
 * @file Shows a team's turns as they happen: as a tree on a terminal, as one JSON object per line anywhere else.
 *
 *     main
 *     ├─ delegate 1 → searcher  <subtask>
 *     │  ├─ search  {"query":"…"}
 *     │  │    <response>
 *     │  └─ answer  <report>
 *     └─ answer  <answer>
 */
import type { CallPath } from "../../core/contracts/rollout.ts";
import type { ConversationProgress } from "../../gpu-workers/rollouts/converse.ts";
import type { Tree } from "../../ui/views.ts";
import { drawSubtree } from "../show/text.ts";
import type { ConversationSource, OnProgress } from "./answer.ts";

export function asLines(write: (line: string) => void): OnProgress {
  return ({ agent, path }, progress) => {
    const { kind, ...content } = eventOf(progress);
    const [call, ...deeper] = path;
    const at = { ...(call !== undefined && { call }), ...(deeper.length > 0 && { path }) };
    write(JSON.stringify({ kind, agent, ...at, ...content }));
  };
}

function eventOf(progress: ConversationProgress): { kind: string } & Record<string, unknown> {
  switch (progress.kind) {
    case "prompt":
      return progress;
    case "turn":
      return { kind: "turn", text: progress.turn.text };
    case "response": {
      const { call, response } = progress;
      return { kind: "response", name: call.name, arguments: call.arguments, text: response.text };
    }
    case "end": {
      const { stop, answer, fault } = progress.conversation;
      return { kind: "end", stop, answer, fault };
    }
  }
}

/**
 * Numbers distinguish sub-agents' conversations that are open at the same time. In an app's rollout, each agent's conversations are counted
 * separately: if two open ones have the same number, the agent's name is added.
 */
export function asTree(write: (line: string) => void): OnProgress {
  const open = new Set<string>();
  const drawAt = (level: number, tree: Omit<Tree, "children">, last = false) => {
    for (const line of drawSubtree({ ...tree, children: [] }, "│  ".repeat(level), last)) write(line);
  };
  const markOf = ({ agent, path }: ConversationSource): string => {
    if (path.length === 0 || open.size < 2) return "";
    const sameNumber = [...open].filter((name) => name.endsWith(` ${numbered(path)}`));
    return `${sameNumber.length > 1 ? nameOf({ agent, path }) : numbered(path)}· `;
  };
  const draw = (source: ConversationSource, tree: Omit<Tree, "children">, last = false) =>
    drawAt(source.path.length, { ...tree, title: markOf(source) + tree.title }, last);
  return (source, progress) => {
    const { agent, path } = source;
    switch (progress.kind) {
      case "prompt":
        if (path.length === 0) write(agent);
        else {
          open.add(nameOf(source));
          drawAt(path.length - 1, delegated(path, agent, progress.prompt));
        }
        return;
      case "turn":
        if (thoughtsOf(progress.turn.text) !== "")
          draw(source, { title: "…", tags: [], body: thoughtsOf(progress.turn.text) });
        return;
      case "response":
        // A report is drawn at the end of its own conversation.
        if (progress.response.invocation !== undefined) return;
        draw(source, {
          title: progress.call.name,
          tags: [{ text: JSON.stringify(progress.call.arguments), tone: "plain" }],
          body: progress.response.text,
        });
        return;
      case "end":
        draw(source, ending(progress.conversation), true);
        open.delete(nameOf(source));
    }
  };
}

/** Counted from 1: 2 is the main agent's second delegation, 2.1 the first of the conversation that answers it. */
const numbered = (path: CallPath): string => path.map((call) => call + 1).join(".");

const nameOf = ({ agent, path }: ConversationSource): string => `${agent} ${numbered(path)}`;

function delegated(path: CallPath, agent: string, task: string): Omit<Tree, "children"> {
  return { title: `delegate ${numbered(path)} → ${agent}`, tags: [{ text: task, tone: "plain" }] };
}

function ending({
  answer,
  stop,
  fault,
}: Extract<ConversationProgress, { kind: "end" }>["conversation"]): Omit<Tree, "children"> {
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
