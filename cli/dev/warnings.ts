/** @file What would keep a team from learning, found in one group of rollouts. Pure. */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { BranchCounts } from "../../core/contracts/rollout.ts";
import { hasSignal } from "../../core/mgrpo/batch.ts";
import { withPaths } from "../../core/stack-frames.ts";
import type { StoredRollout } from "../conversations.ts";
import { counted } from "../terminal/columns.ts";
import type { TriedGroup } from "./rollouts.ts";
import type { AgentShare } from "./shares.ts";

/** Lines of an error's stack that are shown. */
const STACK_LINES = 6;

type TriedTeam = Pick<RunConfig, "agents" | "main" | "runner">;

export function groupWarnings(config: TriedTeam, tried: TriedGroup, shares: readonly AgentShare[]): string[] {
  return [
    ...lostRolloutWarnings(tried),
    ...tried.gatewayWarnings,
    ...varianceWarnings(config, tried),
    ...shares.flatMap((share) => agentWarnings(config, share, tried)),
  ];
}

/** Lost rollouts, what was thrown, and rollouts whose app gave no answer. */
function lostRolloutWarnings({ group, rollouts, thrown }: TriedGroup): string[] {
  const lost = Object.entries(group.rollouts).flatMap(([k, score]) =>
    "excluded" in score ? [[k, score.excluded]] : [],
  );
  const gaveUp = rollouts.flatMap(({ outcome }, k) => {
    if (outcome.status === "failed" || !outcome.app || outcome.conversation.answer !== null) return [];
    const { fault, stop } = outcome.conversation;
    if (stop === "malformed") return [`rollout ${k}: the app gave no answer: ${fault || "no reason given"}`];
    return [`rollout ${k}: the app gave up when it was told of a limit (${stop})`];
  });
  const errors = new Set(thrown.map(({ what, error }) => `${what}: ${stackOf(error)}`));
  return [
    ...lost.map(
      ([k, reason]) =>
        `rollout ${k} is lost: ${reason}. In training, infrastructure failures are retried (limits.attempts)`,
    ),
    ...errors,
    ...gaveUp,
  ];
}

/** The message and the first lines of the stack. */
function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const lines = withPaths(error.stack ?? error.message).split("\n");
  return lines.slice(0, STACK_LINES).join("\n");
}

function varianceWarnings({ main, agents }: TriedTeam, { group }: TriedGroup): string[] {
  const rewards = Object.values(group.rollouts).flatMap((score) => ("excluded" in score ? [] : [score.reward]));
  if (rewards.length < 2) {
    const scored = `only ${rewards.length} of ${counted(Object.keys(group.rollouts).length, "rollout")}`;
    return [`${scored} ${rewards.length === 1 ? "has" : "have"} a score: an advantage needs at least two`];
  }
  // A frozen main agent learns from no batch. A sub-agent has its own.
  if (!agents[main]?.trained) return [];
  const batch = group.finalized[main];
  if (!batch) {
    return [
      `nothing to train on: every rollout of '${main}' was cut off at a limit and is masked (algorithm.overlong)`,
    ];
  }
  if (hasSignal(batch)) return [];
  return [
    `no variance: all ${rewards.length} rollouts have reward ${rewards[0]?.toFixed(3)}, so '${main}' learns nothing from this question: try others (--question) and more rollouts; if most are like this, ask easier or harder ones, or give partial credit`,
  ];
}

function agentWarnings(config: TriedTeam, { agent, trained, branches }: AgentShare, tried: TriedGroup): string[] {
  const { agents, main, runner } = config;
  // A lost rollout has no branches, whichever agents it called.
  const isUncalled = branches === 0 && !tried.called.has(agent);
  // It may have ended before it called them all.
  if (isUncalled && agent !== main && tried.rollouts.every(({ outcome }) => outcome.status === "failed")) return [];
  if (isUncalled && agent !== main)
    return [`'${agent}' was never called${trained ? ": no rollout would train it" : ""}`];
  if (isUncalled && runner !== "native")
    return [`no request to '${agent}' was accepted: does the app use its base URL and model?`];
  const conversations = tried.rollouts.flatMap((rollout) => conversationsOf(rollout, agent, main));
  const counts = countsOf(tried.rollouts, agent);
  const cut = counts?.cut ?? conversations.filter(({ stop }) => stop === "token-limit").length;
  const fault = conversations.find(({ stop }) => stop === "malformed")?.fault;
  const calledTool = conversations.some(({ turns }) => turns.some(({ calls }) => calls.length > 0));
  const offered = tried.offered.get(agent)?.size ?? 0;
  const { turnTokens, contextTokens } = agents[agent]?.limits ?? {};
  const unparsed = counts?.unparsed ?? 0;
  const warnings: [boolean, string][] = [
    [
      branches > 0 && offered > 0 && !calledTool && !callsInBranches(tried.rollouts, agent, main),
      `'${agent}' was offered ${counted(offered, "tool")} and never called one${fault ? ` (malformed: ${fault})` : ""}: its model may not know the tool-call format, see agents.${agent}.toolPrompt and docs/models.md`,
    ],
    [
      unparsed > 0,
      `in ${unparsed === 1 ? "1 reply" : `${unparsed} replies`} of '${agent}', a tool call could not be parsed and was left as text`,
    ],
    [
      (counts?.rewritten ?? 0) > 0,
      `${counted(counts?.rewritten ?? 0, "request")} to '${agent}' had a history with replies that it did not generate, which are not trained on: does another agent write them, or does the app shorten or edit messages (which begins a new branch), or offer different tools than before?`,
    ],
    [
      cut > 0,
      `${counted(cut, "answer")} of '${agent}' ${cut === 1 ? "was" : "were"} cut off at the token limit: raise agents.${agent}.limits.turnTokens (${turnTokens}) or contextTokens (${contextTokens})${runner === "native" ? "" : ", or the app's max_tokens"}`,
    ],
  ];
  return warnings.flatMap(([holds, text]) => (holds ? [text] : []));
}

function conversationsOf({ outcome, invocations }: StoredRollout, agent: string, main: string): Conversation[] {
  if (agent === main) return outcome.status === "finished" ? [outcome.conversation] : [];
  return [...invocations.values()]
    .filter(({ request }) => request.agent === agent)
    .map(({ conversation }) => conversation);
}

/** The records lack the text of an app's earlier main branches: an invocation is taken as a sign that there were calls. */
const callsInBranches = (rollouts: readonly StoredRollout[], agent: string, main: string): boolean =>
  agent === main &&
  rollouts.some(
    ({ outcome, invocations }) =>
      outcome.status === "finished" && (outcome.app?.branches.length ?? 0) > 0 && invocations.size > 0,
  );

/** Sums over the rollouts that an app ran; undefined if none has counts of the agent. */
function countsOf(rollouts: readonly StoredRollout[], agent: string): BranchCounts | undefined {
  const all = rollouts.flatMap(({ outcome }) => (outcome.status === "finished" && outcome.app?.counts[agent]) || []);
  if (all.length === 0) return undefined;
  const total = (of: keyof BranchCounts) => all.reduce((sum, counts) => sum + counts[of], 0);
  return { branches: total("branches"), rewritten: total("rewritten"), unparsed: total("unparsed"), cut: total("cut") };
}
