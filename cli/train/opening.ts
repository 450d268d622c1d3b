/** @file The first lines of a run: what it trains and where its config is. Without a terminal, a new run prints its whole config as JSON. */
import { isAbsolute, relative } from "node:path";
import colors from "picocolors";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { ownerOf, sharesOf } from "../../core/contracts/shared-policy.ts";
import type { Bases } from "../local/base-models.ts";
import { parameterCount } from "../local/model-needs.ts";
import type { RunFolder } from "../local/run-folder.ts";
import { counted, percent } from "../terminal/columns.ts";
import { flow, terminalWidth } from "../terminal/flow.ts";

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** `link`: of the dashboard. */
export function printOpening(config: RunConfig, folder: RunFolder, bases: Bases, link?: string): void {
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "config", path: folder.config, config }));
    return;
  }
  console.log(opening(config, folder, bases, terminalWidth()));
  printLink(link);
}

export function printResumed(config: RunConfig, folder: RunFolder, step: number, link?: string): void {
  if (!process.stdout.isTTY) return;
  console.log(opening(config, folder, new Map(), terminalWidth(), step));
  printLink(link);
}

/** On a line of its own and never wrapped, so that a terminal makes it clickable. */
function printLink(link: string | undefined): void {
  if (link !== undefined) console.log(`  ${colors.dim("dashboard:")} ${link}\n`);
}

/** `step`: how many steps a resumed run has closed. */
export function opening(config: RunConfig, folder: RunFolder, bases: Bases, width: number, step?: number): string {
  const { run, recipe, arm, seed, steps } = config;
  const names = Object.keys(config.agents);
  const labelWidth = Math.max(...names.map((name) => name.length)) + 4;
  const progress = step === undefined ? counted(steps, "step") : `resumed after step ${step} of ${steps}`;
  const about = [
    { text: run, tone: colors.bold },
    ...[recipe, arm, `seed ${seed}`, progress].map((text) => ({ text })),
  ];
  const agents = Object.entries(config.agents).map(([name, agent]) => {
    const parts = sharedPolicyParts(config, name) ?? partsOf(agent, bases.get(name));
    return `  ${colors.dim(name.padEnd(labelWidth - 2))}${flow(parts, labelWidth, width)}`;
  });
  const settings = `all settings: ${relative(process.cwd(), folder.config)}`;
  return ["", `  ${flow(about, 2, width)}`, ...agents, `  ${colors.dim(settings)}`, ""].join("\n");
}

/** For an agent that shares another's policy: the owner, and this agent's share of its loss; otherwise undefined. */
function sharedPolicyParts({ agents }: RunConfig, name: string): { readonly text: string }[] | undefined {
  const owner = ownerOf(agents, name);
  if (owner === name) return undefined;
  return [{ text: `policy of ${owner}` }, { text: `${percent(sharesOf(agents, owner).get(name) ?? 0)} of its loss` }];
}

/** An agent's model, its policy unless it is `compiled`, its size, and what is trained unless all weights are. */
function partsOf(agent: AgentConfig, base: Parameters<typeof parameterCount>[1] | undefined) {
  const { model, policy, trained, lora } = agent;
  const parameters = base && parameterCount(agent, base);
  const path = isAbsolute(model) ? relative(process.cwd(), model) : model;
  const parts = [
    path.length < model.length ? path : model,
    ...(policy === "compiled" ? [] : [policy]),
    ...(parameters === undefined ? [] : [`${SHORT.format(parameters)} parameters`]),
    ...(trained ? [] : ["frozen"]),
    ...(lora ? [`LoRA of rank ${lora.rank}`] : []),
  ];
  return parts.filter((text) => text !== "").map((text) => ({ text }));
}
