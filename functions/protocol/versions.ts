/** @file Reads an agent's record and manifests: the newest, and those that decide which weights may go. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { trainedAgents } from "../../core/training/plan.ts";
import type { StoredManifest } from "../../core/training/step.ts";
import type { Context } from "../context.ts";

/** The manifests of these versions, of the agents that have published them. */
export async function readManifests(context: Context, run: string, versions: Record<string, number>) {
  const found = await Promise.all(
    Object.entries(versions).map(async ([agent, v]) => [agent, await context.facts.manifest(run, agent, v)] as const),
  );
  return new Map(
    found.flatMap(([agent, manifest]): [string, StoredManifest][] => (manifest ? [[agent, manifest]] : [])),
  );
}

export async function readAgents({ table }: Context, run: string): Promise<AgentRecord[]> {
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.agents);
  return items.map((item) => parse(AgentRecord, item, `AGENT of run '${run}'`));
}

/** Per trained agent, the manifest of an expired version and those that may share its parts. */
export async function readExpired(
  context: Context,
  config: RunConfig,
  version: number | undefined,
  near: (v: number) => number[],
) {
  if (version === undefined) return [];
  const read = (agent: string, v: number) => context.facts.manifest(config.run, agent, v);
  return Promise.all(
    trainedAgents(config).map(async (agent) => {
      const kept = await Promise.all(near(version).map((v) => read(agent, v)));
      const manifest = await read(agent, version);
      return manifest ? [{ manifest: manifest.manifest, kept: kept.flatMap((k) => k?.manifest ?? []) }] : [];
    }),
  ).then((found) => found.flat());
}
