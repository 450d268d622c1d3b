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
import { drawBranch } from "../show/text.ts";
import type { Tree } from "../show/tree.ts";
import type { Narrate, Voice } from "./answer.ts";

export function asLines(write: (line: string) => void): Narrate {
  return ({ agent, call }, moment) => {
    const { kind, ...content } = momentOf(moment);
    write(JSON.stringify({ kind, agent, ...(call !== undefined && { call }), ...content }));
  };
}

function momentOf(moment: ConversationProgress): { kind: string } & Record<string, unknown> {
  switch (moment.kind) {
    case "asked":
      return moment;
    case "said":
      return { kind: "said", text: moment.turn.text };
    case "answered": {
      const { call, response } = moment;
      return { kind: "answered", name: call.name, arguments: call.arguments, text: response.text };
    }
    case "ended": {
      const { stop, answer, fault } = moment.conversation;
      return { kind: "ended", stop, answer, fault };
    }
  }
}

/** Numbers distinguish concurrent delegations. */
export function asTree(write: (line: string) => void): Narrate {
  const open = new Set<number>();
  const draw = ({ call }: Voice, tree: Omit<Tree, "children">, last = false) => {
    const mark = call !== undefined && open.size > 1 ? `${call + 1}· ` : "";
    const node = { ...tree, title: mark + tree.title, children: [] };
    for (const line of drawBranch(node, call === undefined ? "" : "│  ", last)) write(line);
  };
  return (voice, moment) => {
    switch (moment.kind) {
      case "asked":
        if (voice.call === undefined) write(voice.agent);
        else {
          open.add(voice.call);
          draw({ ...voice, call: undefined }, delegated(voice.call, voice.agent, moment.prompt));
        }
        return;
      case "said":
        if (thoughtsOf(moment.turn.text) !== "")
          draw(voice, { title: "…", tags: [], body: thoughtsOf(moment.turn.text) });
        return;
      case "answered":
        // A report is drawn at the end of its own conversation.
        if (moment.response.invocation !== undefined) return;
        draw(voice, {
          title: moment.call.name,
          tags: [{ text: JSON.stringify(moment.call.arguments), tone: "plain" }],
          body: moment.response.text,
        });
        return;
      case "ended":
        draw(voice, ending(moment.conversation), true);
        if (voice.call !== undefined) open.delete(voice.call);
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
