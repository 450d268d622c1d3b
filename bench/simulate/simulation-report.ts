/** @file The figures of a simulation as text. */
import type { Figures } from "./figures.ts";
import type { Meter, SizeStatistics } from "./meter.ts";
import type { SimulationPlan } from "./plan.ts";
import type { MeasurementWindow } from "./simulation.ts";

const MAX_REQUEST_ROWS = 14;
/** Runs below this share of the requested rate have not reached it. */
const MIN_RATE_SHARE = 0.95;

type Scale = (n: number) => string;

export function formatReport(figures: Figures, plan: SimulationPlan, window: MeasurementWindow): string {
  const { meter, rollouts } = window;
  const scaled: Scale = (n) => count(n * figures.factor);
  const workers = Object.entries(plan.workers).map(([agent, n]) => `${n} ${agent}`);
  const sections = [
    `${describeLoad(figures)}\n${describeWindow(figures, plan, window)}\nworkers of each run: ${workers.join(", ")}`,
    verdict(figures),
    limitTable(figures),
    partitionTable(meter, scaled),
    sizeTable("DynamoDB items", "writes", meter.items, scaled),
    sizeTable("S3 objects", "PUTs", meter.objects, scaled),
    functionTable(meter, scaled),
    requestTable(meter, rollouts, scaled),
    dollarTable(figures, rollouts),
    table(
      ["storage, dollars a month", ""],
      Object.entries(figures.monthlyUsd).map(([line, usd]) => [line, usd.toFixed(4)]),
    ),
  ];
  return sections.join("\n\n");
}

function describeLoad({ rolloutsPerMinute, runs, agents, hours }: Figures): string {
  const rollouts = count(rolloutsPerMinute * 60 * hours);
  const share = runs === 1 ? "" : ` in ${runs} runs`;
  return `${count(rolloutsPerMinute)} rollouts a minute${share}, ${agents} agents, ${hours} h: ${rollouts} rollouts`;
}

function describeWindow({ reached, factor }: Figures, plan: SimulationPlan, { seconds }: MeasurementWindow): string {
  const warmUp = plan.warmUp > 0 ? `, after ${plan.warmUp} to warm up` : ", the first of each run";
  const measured = plan.measured === 1 ? "1 step" : `${plan.measured} steps`;
  const steps = `${measured} of ${count(plan.rolloutsPerStep)} rollouts${warmUp}`;
  return (
    `simulated: ${seconds.toFixed(0)} s of virtual time (${steps}), ` +
    `${count(reached)} rollouts a minute; totals are ${factor.toFixed(1)} times the counts`
  );
}

function limitTable({ limits }: Figures): string {
  return table(
    ["limit", "where", "busiest", "limit", "share"],
    limits.map(({ what, where, used, limit, share }) => [what, where, count(used), count(limit), percent(share)]),
  );
}

function partitionTable({ partitionWrites }: Meter, scaled: Scale): string {
  const isGroup = ([name]: readonly [string, unknown]) => name.startsWith("GROUP#");
  const groups = partitionWrites.entries().filter(isGroup);
  const others = partitionWrites.entries().filter((entry) => !isGroup(entry));
  const groupWrites = groups.reduce((sum, [, rate]) => sum + rate.total, 0);
  const hottest = Math.max(0, ...groups.map(([, { peak }]) => peak));
  return table(
    ["partitions", "number", "write units", "busiest second"],
    [
      ...others.map(([name, rate]) => [name, "1", scaled(rate.total), count(rate.peak)]),
      ["GROUP#…, one per question", scaled(groups.length), scaled(groupWrites), count(hottest)],
    ],
  );
}

function sizeTable(what: string, writes: string, sizes: ReadonlyMap<string, SizeStatistics>, scaled: Scale): string {
  return table(
    [what, writes, "mean bytes", "largest"],
    [...sizes].map(([kind, size]) => [kind, scaled(size.writes), count(size.bytes / size.writes), count(size.largest)]),
  );
}

function functionTable({ functions }: Meter, scaled: Scale): string {
  return table(
    ["functions", "invocations", "seconds", "longest", "cold", "failed events", "timed out"],
    [...functions].map(([name, use]) => [
      name,
      scaled(use.invocations),
      scaled(use.seconds),
      use.longest.toFixed(2),
      scaled(use.coldStarts),
      scaled(use.failed),
      scaled(use.timedOut),
    ]),
  );
}

function requestTable(meter: Meter, rollouts: number, scaled: Scale): string {
  const busiest = [...meter.requests].sort(([, a], [, b]) => b.units - a.units).slice(0, MAX_REQUEST_ROWS);
  return table(
    ["requests (most units first)", "total", "per rollout", "units", "refused"],
    busiest.map(([name, { requests, units, refused }]) => [
      name,
      scaled(requests),
      (requests / rollouts).toFixed(2),
      scaled(units),
      scaled(refused),
    ]),
  );
}

function dollarTable({ usd: lines, hours, factor }: Figures, rollouts: number): string {
  const dollars = Object.entries(lines);
  const total = dollars.reduce((sum, [, usd]) => sum + usd, 0);
  return table(
    ["dollars", `${hours} h`, "per 1,000 rollouts"],
    [...dollars, ["total", total] as const].map(([line, usd]) => [
      line,
      usd.toFixed(4),
      ((usd * 1000) / (rollouts * factor)).toFixed(5),
    ]),
  );
}

/** The limit that this load exceeds most, or comes closest to, after a note if the runs did not reach the requested rate. */
export function firstLimit({ limits: [first], rolloutsPerMinute, reached }: Figures): string {
  const slow =
    reached < MIN_RATE_SHARE * rolloutsPerMinute
      ? `steps take too long: only ${count(reached)} rollouts a minute; `
      : "";
  if (!first) return slow;
  const { what, where, used, limit, share } = first;
  return `${slow}${percent(share)} of ${count(limit)} ${what}${where === "" ? "" : ` (${where})`}: ${count(used)}`;
}

function verdict(figures: Figures): string {
  const [first] = figures.limits;
  return `${first && first.share > 1 ? "BEYOND A LIMIT" : "the nearest limit"}: ${firstLimit(figures)}`;
}

export const count = (n: number) =>
  n.toLocaleString("en-US", { maximumFractionDigits: n > 0 && n < 10 && !Number.isInteger(n) ? 1 : 0 });
const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`;

/** Left-aligns the first column and columns of text; right-aligns columns with numbers. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const isText = head.map((_, i) => i === 0 || rows.every((row) => !/^[\d.,]/.test(row[i] ?? "")));
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (isText[i] ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  return [head, ...rows].map((row) => line(row).trimEnd()).join("\n");
}
