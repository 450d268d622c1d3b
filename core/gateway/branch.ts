/**
 * @file Converts a branch of an agent's conversations to the records of a rollout: a trajectory (token ids as sampled), and a conversation for
 * rewards and readers.
 */
import type { AppMessage } from "../contracts/app-chat.ts";
import type { Conversation, ToolCall, ToolResponse, Turn } from "../contracts/conversation.ts";
import type { BranchCounts, Trajectory } from "../contracts/rollout.ts";
import { parseTurn, TAGS } from "../conversation/parse-turn.ts";
import type { Exchange } from "./message-tree.ts";
import { splitThinking } from "./reply.ts";

/** A turn as its session keeps it. */
export interface SampledTurn {
  /** All tokens of the conversation, the sampled ones last. */
  readonly tokens: readonly number[];
  /** Index of the first sampled token. */
  readonly start: number;
  /** One per sampled token. */
  readonly logProbs: readonly number[];
  /** The sampled text, with thinking and calls, up to a stop string of the request. */
  readonly text: string;
  readonly calls: readonly ToolCall[];
  /** As in `ParsedReply`. */
  readonly unparsed: number;
  /** The turn reached its limit on tokens. */
  readonly isCut: boolean;
}

export type Branch = readonly Exchange<SampledTurn>[];

/** @param counted the turns whose tokens are trained on; the others are context. Absent: all. */
export function trajectoryOf(
  agent: string,
  version: number,
  branch: Branch,
  counted: (exchange: Exchange<SampledTurn>) => boolean = () => true,
): Trajectory {
  const trained = branch.filter(counted).map(({ turn }) => turn);
  return {
    agent,
    version,
    tokens: [...(branch.at(-1)?.turn.tokens ?? [])],
    actions: trained.map(({ start, logProbs }) => [start, start + logProbs.length]),
    logProbs: trained.flatMap(({ logProbs }) => logProbs),
  };
}

/**
 * The trajectories of several branches that are weighted together as one: a turn that branches share is trained once, in the first of them.
 * Branches without a turn of their own are left out.
 */
export function trajectoriesOf(agent: string, version: number, branches: readonly Branch[]): Trajectory[] {
  const seen = new Set<string>();
  const trajectories: Trajectory[] = [];
  for (const branch of branches) {
    const own = new Set(branch.filter(({ id }) => !seen.has(id)));
    for (const { id } of own) seen.add(id);
    if (own.size > 0) trajectories.push(trajectoryOf(agent, version, branch, (exchange) => own.has(exchange)));
  }
  return trajectories;
}

/** Counts over these branches; a turn that several share counts once. */
export function countsOf(branches: readonly Branch[]): BranchCounts {
  const exchanges = [...new Set(branches.flat())];
  const examples = examplesIn(exchanges);
  return {
    branches: branches.length,
    rewritten: exchanges.filter(({ added }) => repliesIn(added).some((reply) => !examples.has(reply))).length,
    unparsed: exchanges.filter(({ turn }) => turn.unparsed > 0).length,
    cut: exchanges.filter(({ turn }) => turn.isCut).length,
  };
}

/** The app's own examples of replies, as in a few-shot prompt: those with which every conversation begins. */
function examplesIn(exchanges: Branch): ReadonlySet<string> {
  const [first = [], ...others] = exchanges.filter(({ parent }) => !parent).map(({ added }) => repliesIn(added));
  return new Set(first.filter((reply) => others.every((replies) => replies.includes(reply))));
}

const repliesIn = (messages: readonly AppMessage[]): string[] =>
  messages.filter(({ role }) => role === "assistant").map((message) => JSON.stringify(message));

/** A sub-agent's conversation: it answers with its last reply. */
export function subConversationOf(branch: Branch): Conversation {
  return { prompt: taskOfBranch(branch), turns: turnsOf(branch), ...endingOf(branch.at(-1)?.turn) };
}

type LastTurn = Pick<SampledTurn, "text" | "calls" | "unparsed" | "isCut">;

/** How a sub-agent's conversation ends with this turn. */
export function endingOf(last: LastTurn | undefined): Pick<Conversation, "stop" | "answer" | "fault"> {
  if (!last || last.isCut) return { stop: "token-limit", answer: null, fault: null };
  const read = readAnswer(last);
  return "fault" in read ? { stop: "malformed", answer: null, ...read } : { stop: "answered", ...read, fault: null };
}

/** A reply's answer: all of its text, or if it has tags of the protocol, what this program's own loop would accept. */
function readAnswer({ text, calls, unparsed }: LastTurn): { answer: string } | { fault: string } {
  if (unparsed > 0) return { fault: "its last reply has invalid tool calls or stray tags" };
  if (calls.length > 0) return { fault: "its last reply is not an answer" };
  const { text: reply } = splitThinking(text);
  if (!TAGS.test(reply)) return reply.trim() === "" ? { fault: "its last reply is empty" } : { answer: reply.trim() };
  const turn = parseTurn(reply, { parameters: new Map() }, Number.MAX_SAFE_INTEGER);
  if (turn.kind === "answer") return { answer: turn.answer };
  return { fault: turn.kind === "malformed" ? turn.fault : "its last reply is not an answer" };
}

/**
 * Texts in the calls of the main agent, in the order of its turns: what it may have handed to its sub-agents. `byTask` uses them to put the
 * conversations of a sub-agent in the order of the calls that led to them, as in this program's own loop.
 */
export function callTextsIn(branches: readonly Branch[]): string[] {
  const turns = [...new Set(branches.flat())].map(({ turn }) => turn);
  return turns.flatMap(({ calls }) => calls.flatMap((call) => textsIn(call.arguments)));
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return value.trim() === "" ? [] : [value];
  return value !== null && typeof value === "object" ? Object.values(value).flatMap(textsIn) : [];
}

/** Conversations in the order of the tasks that they are about; those about none come last. */
export function byTask(branches: readonly Branch[], tasks: readonly string[]): Branch[] {
  const positions = new Map(branches.map((branch) => [branch, positionIn(tasks, taskOfBranch(branch))]));
  return branches.toSorted((a, b) => (positions.get(a) ?? 0) - (positions.get(b) ?? 0));
}

/** The position of the longest text that the task contains: apps may add words of their own. */
function positionIn(tasks: readonly string[], task: string): number {
  let found = tasks.length;
  for (const [i, text] of tasks.entries()) {
    if (task.includes(text) && text.length > (tasks[found]?.length ?? 0)) found = i;
  }
  return found;
}

/** The task of a conversation: its first user message. */
export function taskOfBranch([first]: Branch): string {
  return first?.messages.find(({ role }) => role === "user")?.text ?? "";
}

export function turnsOf(branch: Branch): Turn[] {
  return branch.map(({ turn }, i) => ({
    text: turn.text,
    calls: [...turn.calls],
    responses: responsesTo(turn, branch[i + 1]?.added ?? []),
  }));
}

/** What followed a turn: the responses to its calls, and any other message that the app added, such as a reply with calls and their responses. */
function responsesTo(turn: SampledTurn, added: readonly AppMessage[]): ToolResponse[] {
  let calls: readonly { readonly name: string }[] = turn.calls;
  return added.map((message) => {
    if (message.role === "assistant") calls = message.calls;
    const name = message.role === "tool" ? (calls[message.call]?.name ?? "tool") : message.role;
    return { name, text: message.text };
  });
}
