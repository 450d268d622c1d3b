/** @file The figures of a simulation as text. */
import type { Figures } from "./figures.ts";
import type { SizeStatistics } from "./meter.ts";
import type { Plan } from "./plan.ts";
import type { MeasurementWindow } from "./run.ts";

const MOST_REQUESTS = 14;
/** A run that comes to less of the rate has not reached it. */
const LEAST_OF_RATE = 0.85;

export function formatReport(figures: Figures, plan: Plan, { meter, seconds, rollouts }: MeasurementWindow): string {
  const { hours, factor, limits, rolloutsPerMinute, agents } = figures;
  const scaled = (n: number) => count(n * factor);
  const dollars = Object.entries(figures.usd);
  const total = dollars.reduce((sum, [, usd]) => sum + usd, 0);
  const groups = meter.partitionWrites.entries().filter(([name]) => name.startsWith("GROUP#"));
  const others = meter.partitionWrites.entries().filter(([name]) => !name.startsWith("GROUP#"));
  const groupWrites = groups.reduce((sum, [, rate]) => sum + rate.total, 0);
  const hottest = Math.max(0, ...groups.map(([, { peak }]) => peak));
  const partition = (name: string, units: number, peak: number, n: string) => [name, n, scaled(units), count(peak)];

  return [
    `${count(rolloutsPerMinute)} rollouts a minute, ${agents} agents, ${hours} h: ${count(rolloutsPerMinute * 60 * hours)} rollouts`,
    `simulated: ${seconds.toFixed(0)} s of virtual time (${plan.measured} steps of ${count(plan.rolloutsPerStep)} rollouts${plan.warmUp > 0 ? `, after ${plan.warmUp} to warm up` : ", the first of the run"}), ` +
      `${count(figures.reached)} rollouts a minute; totals are ${factor.toFixed(1)} times what was counted`,
    `workers: ${Object.entries(plan.workers)
      .map(([agent, n]) => `${n} ${agent}`)
      .join(", ")}`,
    "",
    verdict(figures),
    "",
    table(
      ["limit", "where", "busiest", "limit", "share"],
      limits.map(({ what, where, used, limit, share }) => [what, where, count(used), count(limit), percent(share)]),
    ),
    "",
    table(
      ["partitions", "number", "write units", "busiest second"],
      [
        ...others.map(([name, rate]) => partition(name, rate.total, rate.peak, "1")),
        partition("GROUP#…, one per question", groupWrites, hottest, scaled(groups.length)),
      ],
    ),
    "",
    table(["items of DynamoDB", "writes", "mean bytes", "largest"], sizes(meter.items, scaled)),
    "",
    table(["objects of S3", "PUTs", "mean bytes", "largest"], sizes(meter.objects, scaled)),
    "",
    table(
      ["functions", "invocations", "seconds", "longest", "cold", "failed events", "timed out"],
      [...meter.functions].map(([name, { invocations, seconds: busy, longest, coldStarts, failed, timedOut }]) => [
        ...[name, scaled(invocations), scaled(busy), longest.toFixed(2)],
        ...[scaled(coldStarts), scaled(failed), scaled(timedOut)],
      ]),
    ),
    "",
    table(
      ["requests (the most)", "in all", "per rollout", "units", "refused"],
      [...meter.requests]
        .sort(([, a], [, b]) => b.units - a.units)
        .slice(0, MOST_REQUESTS)
        .map(([name, { requests, units, refused }]) => [
          ...[name, scaled(requests), (requests / rollouts).toFixed(2), scaled(units), scaled(refused)],
        ]),
    ),
    "",
    table(
      ["dollars", `${hours} h`, "per 1,000 rollouts"],
      [...dollars, ["together", total] as const].map(([line, usd]) => [
        ...[line, usd.toFixed(4), ((usd * 1000) / (rollouts * factor)).toFixed(5)],
      ]),
    ),
    "",
    table(
      ["dollars a month for what was made", ""],
      Object.entries(figures.monthlyUsd).map(([line, usd]) => [line, usd.toFixed(4)]),
    ),
  ].join("\n");
}

/** The limit that this load passes by most, or comes nearest to. */
export function firstLimit({ limits: [first], rolloutsPerMinute, reached }: Figures): string {
  const slow =
    reached < LEAST_OF_RATE * rolloutsPerMinute
      ? `steps take too long, ${count(reached)} rollouts a minute are reached; `
      : "";
  if (!first) return slow;
  const { what, where, used, limit, share } = first;
  return `${slow}${percent(share)} of ${count(limit)} ${what}${where === "" ? "" : ` (${where})`}: ${count(used)}`;
}

function verdict(figures: Figures): string {
  const [first] = figures.limits;
  return `${first && first.share > 1 ? "BEYOND A LIMIT" : "the nearest limit"}: ${firstLimit(figures)}`;
}

function sizes(all: ReadonlyMap<string, SizeStatistics>, scaled: (n: number) => string): string[][] {
  return [...all].map(([kind, { writes, bytes, largest }]) => [
    ...[kind, scaled(writes), count(bytes / writes), count(largest)],
  ]);
}

export const count = (n: number) =>
  n.toLocaleString("en-US", { maximumFractionDigits: n > 0 && n < 10 && !Number.isInteger(n) ? 1 : 0 });
export const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

/** The first column to the left, the others to the right; one that is text throughout is on the left too. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const isText = head.map((_, i) => i === 0 || rows.every((row) => !/^[\d.,]/.test(row[i] ?? "")));
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (isText[i] ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  return [head, ...rows].map((row) => line(row).trimEnd()).join("\n");
}
