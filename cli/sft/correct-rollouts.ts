/**
 * @file The correct rollouts of a run as demonstrations (rejection sampling): every answered conversation in them, the main agent's and its
 * sub-agents'. They are taken as text, so agents behind an API count too. Only training questions: held-out ones stay held out.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { GroupRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import type { Demonstration } from "../../core/recipe.ts";
import type { PlacedDemonstration } from "../../sft/messages.ts";
import { readGroups, readStep } from "../local/follow.ts";
import { readInvocations, readOutcome } from "../show/conversations.ts";
import { openSource } from "../show/source.ts";

export interface AgentDemonstration extends PlacedDemonstration {
  readonly agent: string;
}

/** Equal conversations are returned once. */
export async function correctConversations(run: string, minReward: number): Promise<AgentDemonstration[]> {
  const { config, step, read } = await openSource(run);
  const found = await read(async (store) => {
    const all: AgentDemonstration[] = [];
    for (let closed = 0; closed < step; closed++) {
      for (const group of await readGroups(store, await readStep(store, config.run, closed)))
        all.push(...(await ofGroup(store, config, group, minReward)));
    }
    return all;
  });
  return [...new Map(found.map((one) => [JSON.stringify([one.agent, one.demonstration]), one])).values()];
}

async function ofGroup(
  store: Store,
  { run, main }: RunConfig,
  { step, group, rollouts }: GroupRecord,
  minReward: number,
): Promise<AgentDemonstration[]> {
  const found: AgentDemonstration[] = [];
  for (const [index, score] of Object.entries(rollouts)) {
    if ("excluded" in score || score.reward < minReward) continue;
    const outcome = await readOutcome(store, { run, phase: "train", step, group, rollout: Number(index) });
    if (outcome?.status !== "finished") continue;
    const invocations = [...(await readInvocations(store, outcome)).values()];
    const conversations = [
      { agent: main, conversation: outcome.conversation },
      ...invocations.map(({ request, conversation }) => ({ agent: request.agent, conversation })),
    ];
    const where = `rollout ${step}/${group}/${index} of run '${run}'`;
    for (const { agent, conversation } of conversations) {
      if (conversation.stop === "answered") found.push({ agent, where, demonstration: asDemonstration(conversation) });
    }
  }
  return found;
}

function asDemonstration({ prompt, turns }: Conversation): Demonstration {
  return {
    prompt,
    turns: turns.map(({ text, responses }) => ({ text, responses: responses.map((response) => response.text) })),
  };
}
