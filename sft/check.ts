/** @file Whether an agent could have had a conversation: turns are well-formed, calls are of tools it has, and each has its response. */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import { ToolCall } from "../core/contracts/conversation.ts";
import { jsonOrUndefined } from "../core/contracts/parse.ts";
import { parseTurn, STRAY_TAGS } from "../core/conversation/parse-turn.ts";
import type { Toolbox } from "../core/conversation/toolbox.ts";
import { invalidDemonstration, type LocatedDemonstration, type MessagesLine } from "./messages.ts";

/** The agent that demonstrations are for: the settings that its conversations depend on. */
export interface TargetAgent {
  readonly agent: string;
  readonly config: Pick<AgentConfig, "system" | "limits">;
  readonly toolbox: Pick<Toolbox, "parameters">;
}

/** Refuses a line that an app's agent could not have generated: the gateway reads only calls of tools that the app offers. */
export function refuseMalformedAppLine(
  { turns, tools = [], where }: MessagesLine,
  { limits }: TargetAgent["config"],
): void {
  refuseLength(turns, limits, where);
  for (const [i, { reply }] of turns.entries()) {
    const { text, calls } = reply;
    if (calls.length > limits.calls) {
      throw invalidDemonstration(
        where,
        `turn ${i + 1}: ${calls.length} tool calls, and limits.calls is ${limits.calls}: raise it, or leave the line out`,
      );
    }
    const stray = STRAY_TAGS.exec(text)?.[0];
    if (stray !== undefined) throw invalidDemonstration(where, `turn ${i + 1}: ${stray} inside a turn`);
    const unknown = calls.find(({ name }) => !tools.some((tool) => tool.name === name));
    if (unknown) {
      throw invalidDemonstration(
        where,
        `turn ${i + 1} calls '${unknown.name}', which the line's tools do not define: add its definition`,
      );
    }
    const invalid = calls.find(({ arguments: written }) => !isObject(written));
    if (invalid)
      throw invalidDemonstration(where, `turn ${i + 1}: the arguments of '${invalid.name}' are not a JSON object`);
    refuseMisplaced(turns, i, calls.length, where);
    if (calls.length === 0 && text.trim() === "") throw invalidDemonstration(where, "it ends without an answer");
  }
}

/** Refuses calls in the last turn, an answer in an earlier one, and calls without one response each. `i`: the turn's index. */
function refuseMisplaced(
  turns: readonly { readonly responses: readonly unknown[] }[],
  i: number,
  calls: number,
  where: string,
): void {
  const isLast = i === turns.length - 1;
  if (isLast && calls > 0) throw invalidDemonstration(where, "it ends with tool calls, not with an answer");
  if (!isLast && calls === 0)
    throw invalidDemonstration(where, `turn ${i + 1} is an answer, which ends a conversation`);
  const responses = turns[i]?.responses.length ?? 0;
  if (responses === calls) return;
  throw invalidDemonstration(
    where,
    `turn ${i + 1}: the numbers of tool calls and responses differ (${calls}, ${responses})`,
  );
}

function refuseLength(turns: readonly unknown[], { turns: maxTurns }: AgentConfig["limits"], where: string): void {
  if (turns.length === 0) throw invalidDemonstration(where, "it has no assistant message");
  if (turns.length <= maxTurns) return;
  throw invalidDemonstration(
    where,
    `${turns.length} turns, and limits.turns is ${maxTurns}: raise it, or leave the line out`,
  );
}

const isObject = (text: string): boolean =>
  ToolCall.shape.arguments.safeParse(jsonOrUndefined(text === "" ? "{}" : text)).success;

/** Refuses a conversation without turns, or with a turn before the last that nothing responds to: a rollout would end there. */
export function refuseDeadEnd({ demonstration: { turns }, where }: LocatedDemonstration): void {
  if (turns.length === 0) throw invalidDemonstration(where, "it has no turns, so there is nothing to train on");
  const silent = turns.slice(0, -1).findIndex(({ responses }) => responses.length === 0);
  if (silent === -1) return;
  throw invalidDemonstration(
    where,
    `turn ${silent + 1} has no responses, so a rollout would end there: add them, or leave out the turns after it`,
  );
}

/**
 * Refuses a conversation that has no turns, too many or a malformed one, that does not end with its only answer, or whose calls do not have one
 * response each.
 */
export function refuseMalformed(
  { demonstration, where }: LocatedDemonstration,
  { toolbox, config }: TargetAgent,
): void {
  const { turns } = demonstration;
  const { limits } = config;
  refuseLength(turns, limits, where);
  for (const [i, { text }] of turns.entries()) {
    const turn = parseTurn(text, toolbox, limits.calls);
    if (turn.kind === "malformed") throw invalidDemonstration(where, `turn ${i + 1}: ${turn.fault}`);
    refuseMisplaced(turns, i, turn.kind === "calls" ? turn.calls.length : 0, where);
  }
}

/** Refuses a line whose system message is not the agent's, or that lists a tool that the agent does not have. */
export function refuseOtherAgent(
  { system, tools, where }: MessagesLine,
  { agent, config, toolbox }: TargetAgent,
): void {
  if (system !== undefined && system !== config.system) {
    throw invalidDemonstration(
      where,
      `its system message is not agents.${agent}.system: set that to the same text, or remove the message`,
    );
  }
  const known = [...toolbox.parameters.keys()];
  const unknown = tools?.map(({ name }) => name).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw invalidDemonstration(
    where,
    `its tool '${unknown}' is not a tool of agent '${agent}' (${known.join(", ") || "none"})`,
    {
      unknownNames: [{ unknown, known }],
    },
  );
}
