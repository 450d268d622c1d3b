/** @file Which versions retention keeps and which it deletes, and a table with the STEP records that it reads. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import type { Table } from "../../core/ports.ts";
import { readDueTeam } from "../../core/training/evaluation.ts";
import { isKept, readExpiredVersion } from "../../core/training/retention.ts";

type Reader = Pick<Table, "get">;

/** A table with the closed steps of run `test`, one for each `dueTeam`. */
export function stepsTable(dueTeams: readonly number[]): Reader {
  const records = dueTeams.map(
    (dueTeam, step): StepRecord => ({
      ...{ run: "test", step, state: "closed", groups: ["q"], round: 0, policy: { main: step }, trained: ["main"] },
      ...{ sampledBefore: 0, sampledTokens: 1, curriculum: { stage: 0, drawn: [0] }, dueTeam },
    }),
  );
  const keys = records.map(({ step }) => JSON.stringify(tableKeys.step("test", step)));
  return { get: (key) => Promise.resolve(records[keys.indexOf(JSON.stringify(key))]) };
}

/** The versions from 0 to `newest` that are kept forever. */
export async function keptVersions(
  config: RunConfig,
  newest: number,
  table: Reader = stepsTable([]),
): Promise<number[]> {
  const versions = Array.from({ length: newest + 1 }, (_, version) => version);
  const kept = await Promise.all(
    versions.map(async (version) => isKept(config, version, await readDueTeam(table, config, version))),
  );
  return versions.filter((version) => kept[version]);
}

/** For each of the versions 1 to `newest`: the version that expires when it appears, if any. */
export function expired(
  config: RunConfig,
  newest: number,
  table: Reader = stepsTable([]),
): Promise<(number | undefined)[]> {
  const versions = Array.from({ length: newest }, (_, i) => i + 1);
  return Promise.all(versions.map(async (n) => (await readExpiredVersion(table, config, n))?.version));
}
