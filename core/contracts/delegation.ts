/**
 * @file Who may delegate to whom. The agents of a team form a tree: the main agent is its root, and every other agent has exactly one caller.
 * So each agent has one level, and its groups compare conversations of that level only. A model that works at two levels is two agents with
 * one policy (`policy: "of:<agent>"`), each with groups, statistics and alignment of its own.
 */
import type { ConfigFault } from "./config-fault.ts";

/** Limit on levels below the main agent. Each runs within the time limits of the level above, and multiplies the number of invocations. */
export const MAX_LEVELS = 4;

interface Delegating {
  readonly delegates: readonly string[];
}

type DelegatingTeam<A extends Delegating = Delegating> = Readonly<Record<string, A>>;

/** All agents below an agent, itself excluded, each before the agents that it calls. */
export function agentsBelow(agents: DelegatingTeam, agent: string): string[] {
  return (agents[agent]?.delegates ?? []).flatMap((delegate) => [delegate, ...agentsBelow(agents, delegate)]);
}

interface Limited extends Delegating {
  readonly limits: { readonly turns: number; readonly calls: number };
}

/** An upper bound on the invocations that one conversation of the agent can cause, at all levels. */
export function maxInvocations(agents: DelegatingTeam<Limited>, agent: string): number {
  const { delegates = [], limits } = agents[agent] ?? {};
  if (!limits || delegates.length === 0) return 0;
  return limits.turns * limits.calls * (1 + Math.max(...delegates.map((name) => maxInvocations(agents, name))));
}

/** Delegates that are not sub-agents or are listed twice, agents with no caller or several, cycles, and too many levels: path and message. */
export function delegationFaults({
  main,
  agents,
}: {
  readonly main: string;
  readonly agents: DelegatingTeam;
}): ConfigFault[] {
  const names = Object.keys(agents);
  const subs = names.filter((name) => name !== main);
  const instead = subs.length > 0 ? `name one of ${subs.join(", ")}, or remove it` : "remove it";
  const unknown = names.flatMap((name): ConfigFault[] =>
    (agents[name]?.delegates ?? [])
      .filter((delegate) => !subs.includes(delegate))
      .map((delegate) => [["agents", name, "delegates"], `'${delegate}' is not a sub-agent of this team: ${instead}`]),
  );
  const repeated = names.flatMap((name): ConfigFault[] => {
    const twice = (agents[name]?.delegates ?? []).find((delegate, i, all) => all.indexOf(delegate) < i);
    return twice === undefined ? [] : [[["agents", name, "delegates"], `lists '${twice}' twice: remove one`]];
  });
  const faults = [...unknown, ...repeated, ...subs.flatMap((name) => callerFaults(main, agents, name))];
  // pathFaults assumes that every sub-agent has exactly one caller.
  return faults.length > 0 ? faults : subs.flatMap(pathFaults(main, agents));
}

const callersOf = (agents: DelegatingTeam, name: string): string[] =>
  Object.keys(agents).filter((caller) => agents[caller]?.delegates.includes(name));

function callerFaults(main: string, agents: DelegatingTeam, name: string): ConfigFault[] {
  const [first, second] = callersOf(agents, name);
  if (first === undefined) {
    return [[["agents", name], `nobody delegates to '${name}': add it to agents.${main}.delegates or remove it`]];
  }
  if (second === undefined) return [];
  const message = `'${first}' delegates to '${name}' too: an agent has one caller; give '${second}' an agent of its own, with policy of:${name} if it is to be the same model`;
  return [[["agents", second, "delegates"], message]];
}

function pathFaults(main: string, agents: DelegatingTeam): (name: string) => ConfigFault[] {
  return (name) => {
    const above = [name];
    for (;;) {
      const [caller] = callersOf(agents, above[0] ?? "");
      if (caller === undefined || caller === main) break;
      if (above.includes(caller)) {
        const cycle = [caller, ...above.slice(0, above.indexOf(caller) + 1)].join(" → ");
        return [[["agents", name], `the main agent never reaches '${name}': its callers form a cycle, ${cycle}`]];
      }
      above.unshift(caller);
    }
    if (above.length <= MAX_LEVELS) return [];
    const path = [main, ...above].join(" → ");
    return [[["agents", name], `${path} has ${above.length} levels of sub-agents: at most ${MAX_LEVELS} are allowed`]];
  };
}
