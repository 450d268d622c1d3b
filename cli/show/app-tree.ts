/** @file What a rollout's tree also shows if an app ran the rollout: the main agent's branches, the gateway's counts, the app's rewards. */
import type { Turn } from "../../core/contracts/conversation.ts";
import {
  type AppRecord,
  type BranchCounts,
  type FinishedOutcome,
  sampledTokens,
} from "../../core/contracts/rollout.ts";
import type { Tag, Tree } from "../../ui/views.ts";
import { counted } from "../terminal/columns.ts";
import { plain } from "./plain-tag.ts";

/** The text of each sampled turn of a trajectory, in order. */
export type TurnTexts = readonly string[];

/** The turns, without calls and responses, of each of the main agent's branches but the last, whose conversation is in the outcome. */
export function earlierTurns({ app }: FinishedOutcome, texts: ReadonlyMap<number, TurnTexts> | undefined): Turn[][] {
  return (app?.branches ?? []).map((_, i) => (texts?.get(i) ?? []).map((text) => ({ text, calls: [], responses: [] })));
}

/** @param branches the rendered turns of each branch. */
export function branchTrees({ trajectory, app }: FinishedOutcome, branches: readonly (readonly Tree[])[]): Tree[] {
  return [trajectory, ...(app?.branches ?? [])].map((branch, i) => {
    const children = branches[i] ?? [];
    const turns = "actions" in branch ? branch.actions.length : 0;
    return {
      title: `branch ${i + 1} of ${branches.length}`,
      tags: [
        plain(`${counted(turns, "turn")} of its own`),
        { text: `${sampledTokens(branch)} sampled tokens`, tone: "faint" },
        ...(children.length > 0 ? [] : [{ text: "no text: its version has no manifest", tone: "faint" as const }]),
      ],
      folded: true,
      ...("tokens" in branch && { trajectory: i === 0 ? "main" : `main/${i}` }),
      children,
    };
  });
}

/** One line per agent: what the gateway counted, and the app's reward. */
export function countLines(app: AppRecord, main: string): Tree[] {
  return Object.entries(app.counts).map(([agent, counts]) => ({
    title: agent,
    tags: [...countTags(counts), ...rewardTags(agent === main ? app.reward : app.rewards?.[agent])],
    children: [],
  }));
}

/** Faults stand out; what did not happen is left out. */
function countTags({ branches, rewritten, unparsed, cut }: BranchCounts): Tag[] {
  const faults = [
    rewritten > 0 ? `${counted(rewritten, "request")} with rewritten history` : "",
    unparsed > 0 ? `${counted(unparsed, "turn")} with an unparsed tool call` : "",
    cut > 0 ? `${counted(cut, "turn")} cut off at the token limit` : "",
  ];
  return [
    plain(branches === 1 ? "1 branch" : `${branches} branches`),
    ...faults.filter(Boolean).map((text): Tag => ({ text, tone: "bad" })),
  ];
}

const rewardTags = (reward: number | undefined): Tag[] =>
  reward === undefined ? [] : [plain(`reward ${reward} from the app`)];
