/** @file Parsed reads of the DynamoDB records. What no longer changes is cached: finalized groups, and the questions and versions of a step. */
import { FleetRecord } from "../core/contracts/fleet-record.ts";
import { tableKeys, tablePrefixes } from "../core/contracts/keys.ts";
import { parse } from "../core/contracts/parse.ts";
import {
  AgentRecord,
  GroupRecord,
  JobRecord,
  ListedRun,
  RunRecord,
  StepRecord,
  WorkerRecord,
} from "../core/contracts/records.ts";
import type { Table, TableItem } from "../core/ports.ts";
import { listedRuns } from "../core/training/run-list.ts";
import { evictOldest, FinalizedGroups, memo } from "./caches.ts";

const CACHED_PLANS = 100;

/** Groups of a step by index, undefined where the item is missing. */
export type Groups = (GroupRecord | undefined)[];

export class Records {
  readonly #table: Table;
  readonly #finalized = new FinalizedGroups();
  /** By `run/step`, the group that was open at the last check. Most likely it still is: then one read is enough. */
  readonly #lastOpen = new Map<string, number>();
  readonly #plans: (key: string) => Promise<StepRecord | undefined>;

  constructor(table: Table) {
    this.#table = table;
    this.#plans = memo(CACHED_PLANS, (key) => {
      const [run = "", step] = key.split("/");
      return this.step(run, Number(step));
    });
  }

  /** The runs that the schedule ticks. An interrupted start leaves a name without a RUN. */
  listedRuns(): Promise<ListedRun[]> {
    return listedRuns(this.#table);
  }

  async listedRun(run: string): Promise<ListedRun | undefined> {
    const item = await this.#table.get(tableKeys.listed(run));
    return item && parse(ListedRun, item, "list of runs");
  }

  async run(run: string): Promise<RunRecord | undefined> {
    const item = await this.#table.get(tableKeys.run(run));
    return item && parse(RunRecord, item, `RUN '${run}'`);
  }

  /** The status of a RUN record whose other attributes may be unreadable. */
  async status(run: string): Promise<RunRecord["status"] | undefined> {
    const item = await this.#table.get(tableKeys.run(run));
    return RunRecord.shape.status.safeParse(item?.["status"]).data;
  }

  async step(run: string, step: number): Promise<StepRecord | undefined> {
    const item = await this.#table.get(tableKeys.step(run, step));
    return item && parse(StepRecord, item, `STEP ${step} of run '${run}'`);
  }

  /** Those of the `count` steps from `first` on that are planned. Steps are planned in order. */
  async steps(run: string, first: number, count: number): Promise<StepRecord[]> {
    const found = await Promise.all(Array.from({ length: count }, (_, i) => this.step(run, first + i)));
    const missing = found.indexOf(undefined);
    return (missing === -1 ? found : found.slice(0, missing)).flatMap((step) => step ?? []);
  }

  /** The plan of a step, with this group in it. Questions and versions never change, but groups may be appended. */
  async plan(run: string, step: number, group: number): Promise<StepRecord | undefined> {
    const plan = await this.#plans(`${run}/${step}`);
    return plan && plan.groups.length > group ? plan : this.step(run, step);
  }

  async isPlanned(run: string, step: number): Promise<boolean> {
    return (await this.#plans(`${run}/${step}`)) !== undefined;
  }

  async agents(run: string): Promise<AgentRecord[]> {
    const items = await this.#ofRun(run, tablePrefixes.agents);
    return items.map((item) => parse(AgentRecord, item, `AGENT of run '${run}'`));
  }

  async workers(run: string): Promise<WorkerRecord[]> {
    const items = await this.#ofRun(run, tablePrefixes.workers);
    return items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
  }

  async jobs(run: string): Promise<JobRecord[]> {
    const items = await this.#ofRun(run, tablePrefixes.jobs);
    return items.map((item) => parse(JobRecord, item, `JOB of run '${run}'`));
  }

  async fleets(run: string): Promise<FleetRecord[]> {
    const items = await this.#ofRun(run, tablePrefixes.fleets);
    return items.map((item) => parse(FleetRecord, item, `FLEET of run '${run}'`));
  }

  #ofRun(run: string, prefix: string): Promise<TableItem[]> {
    return this.#table.query(tableKeys.run(run).pk, prefix);
  }

  async group(run: string, step: number, index: number): Promise<GroupRecord | undefined> {
    const known = this.#finalized.get(run, step, index);
    if (known) return known;
    const item = await this.#table.get(tableKeys.group(run, step, index));
    return item && this.parseGroup(item);
  }

  /** Parses a GROUP item, as read or as an update returned it, and caches it once it is finalized. */
  parseGroup(item: TableItem): GroupRecord {
    const record = parse(GroupRecord, item, `GROUP ${item["step"]}/${item["group"]} of run '${item["run"]}'`);
    if (record.state === "finalized") this.#finalized.add(record);
    return record;
  }

  groups({ run, step, groups }: StepRecord): Promise<Groups> {
    return Promise.all(groups.map((_, index) => this.group(run, step, index)));
  }

  /** All groups of the step if none is open; undefined as soon as an open one is found. Checks the one that was last seen open first. */
  async groupsIfNoneOpen(plan: StepRecord): Promise<Groups | undefined> {
    const { run, step } = plan;
    const name = `${run}/${step}`;
    for (let group = this.#lastOpen.get(name) ?? 0; group < plan.groups.length; group++) {
      if ((await this.group(run, step, group))?.state !== "open") continue;
      this.#lastOpen.set(name, group);
      evictOldest(this.#lastOpen, CACHED_PLANS);
      return undefined;
    }
    this.#lastOpen.delete(name);
    const groups = await this.groups(plan);
    return groups.some((group) => group?.state === "open") ? undefined : groups;
  }

  /** All groups of the `count` steps before this one. */
  async earlierGroups({ run, step }: StepRecord, count: number): Promise<GroupRecord[]> {
    const steps = Array.from({ length: Math.min(count, step) }, (_, i) => step - 1 - i);
    const groups = await Promise.all(
      steps.map(async (earlier) => {
        const plan = await this.step(run, earlier);
        return plan ? this.groups(plan) : [];
      }),
    );
    return groups.flat().flatMap((group) => group ?? []);
  }
}
