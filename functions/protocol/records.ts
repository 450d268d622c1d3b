/** @file Reads of DynamoDB records, parsed. What cannot change any more (a finalized group, the plan of a step) is read once per process. */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Table, TableItem } from "../../core/ports.ts";
import { memo } from "./memo.ts";

/** Finalized groups that a process remembers: more than a step has, or each look at a large step would read all of them again. */
const FINALIZED_GROUPS = 5000;

export type Records = ReturnType<typeof openRecords>;

export function openRecords(table: Table) {
  const finalized = new Map<string, GroupRecord>();
  const lastOpen = new Map<string, { step: number; group: number }>();
  const readStep = async (run: string, step: number) => {
    const item = await table.get(tableKeys.step(run, step));
    return item && parse(StepRecord, item, `STEP ${step} of run '${run}'`);
  };
  const plans = memo(100, (key) => {
    const [run = "", step] = key.split("/");
    return readStep(run, Number(step));
  });
  /** A group as an update returned it, or as it was read. */
  const group = (item: TableItem): GroupRecord => {
    const record = parse(GroupRecord, item, `GROUP ${item["step"]}/${item["group"]} of run '${item["run"]}'`);
    if (record.state === "finalized") finalized.set(`${record.run}/${record.step}/${record.group}`, record);
    for (const oldest of finalized.keys()) {
      if (finalized.size <= FINALIZED_GROUPS) break;
      finalized.delete(oldest);
    }
    return record;
  };
  return {
    run: async (run: string) => {
      const item = await table.get(tableKeys.run(run));
      return item && parse(RunRecord, item, `RUN '${run}'`);
    },
    step: readStep,
    /** The plan of a step, known to hold this group: its questions and pins never change, but groups may be appended. */
    plan: async (run: string, step: number, group: number) => {
      const plan = await plans(`${run}/${step}`);
      return plan && plan.groups.length > group ? plan : readStep(run, step);
    },
    /** Whether STEP is there. Once it is, it is for good. */
    isPlanned: async (run: string, step: number) => (await plans(`${run}/${step}`)) !== undefined,
    group,
    /** The group that this process found open when it last looked: most likely it still is, and one read is enough. */
    lastOpen,
    groupAt: async (run: string, step: number, index: number) => {
      const known = finalized.get(`${run}/${step}/${index}`);
      if (known) return known;
      const item = await table.get(tableKeys.group(run, step, index));
      return item && group(item);
    },
  };
}
