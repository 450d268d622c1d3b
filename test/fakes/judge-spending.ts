/** @file What judges have cost a run: the sum of its JUDGES records. */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { JudgeSpendingRecord } from "../../core/contracts/spending.ts";
import type { Table } from "../../core/ports.ts";

/** Undefined: no judge was paid. */
export async function judgeSpendingOf(table: Table, run: string): Promise<JudgeSpendingRecord | undefined> {
  const shards = await table.query(tableKeys.run(run).pk, tablePrefixes.judgeSpending);
  if (shards.length === 0) return undefined;
  return shards
    .map((shard) => JudgeSpendingRecord.parse(shard))
    .reduce((sum, shard) => ({
      run,
      verdicts: sum.verdicts + shard.verdicts,
      microUsd: sum.microUsd + shard.microUsd,
      reserved: { ...sum.reserved, ...shard.reserved },
    }));
}
