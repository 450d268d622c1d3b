/** @file A window's peaks as shares of their limits, and its counts scaled to the requested hours, with dollars by line item. */
import { sum } from "../../core/statistics.ts";
import { EVENT_FUNCTIONS, START_RUN } from "../../stacks/sizes.ts";
import { LIMITS } from "./limits.ts";
import type { Meter, Rates } from "./meter.ts";
import type { Load, SimulationPlan } from "./plan.ts";
import { IDLE_POLLS_PER_SECOND, LOG_BYTES, PRICES } from "./prices.ts";
import type { MeasurementWindow } from "./simulation.ts";

/** All totals are for `hours`, scaled from the window; `limits` shows the window's busiest moments. */
export interface Figures extends Load {
  readonly hours: number;
  /** Rollouts per minute that the runs reached together. */
  readonly reached: number;
  /** The factor from the window's counts to the totals. */
  readonly factor: number;
  readonly workers: number;
  /** In order of `share`, the largest first. */
  readonly limits: readonly LimitUse[];
  readonly units: { readonly writes: number; readonly reads: number };
  /** `puts`: without requests that delete, which cost nothing. `reads`: GETs and HEADs. */
  readonly s3: { readonly puts: number; readonly reads: number };
  readonly functions: { readonly invocations: number; readonly seconds: number };
  /** `<caller> <operation> <kind>` -> requests per rollout. */
  readonly requestsPerRollout: Readonly<Record<string, number>>;
  /** The same for requests whose condition failed, if there were any. */
  readonly refusedPerRollout: Readonly<Record<string, number>>;
  /** Dollars by line item; `monthlyUsd`: to store for a month what the hours produced. */
  readonly usd: Readonly<Record<string, number>>;
  readonly monthlyUsd: Readonly<Record<string, number>>;
}

export function figuresOf(load: Load, hours: number, plan: SimulationPlan, window: MeasurementWindow): Figures {
  const { meter, seconds, rollouts } = window;
  const factor = (load.rolloutsPerMinute * 60 * hours) / rollouts;
  const functions = [...meter.functions.values()];
  const requests = [...meter.requests];
  const refused = requests.filter(([, use]) => use.refused > 0);
  return {
    ...load,
    hours,
    reached: (rollouts / seconds) * 60,
    factor,
    workers: load.runs * Object.values(plan.workers).reduce((sum, n) => sum + n, 0),
    limits: limitUses(meter),
    units: { writes: meter.table.of("write").total * factor, reads: meter.table.of("read").total * factor },
    s3: { puts: putsOf(meter) * factor, reads: meter.bucket.of("read").total * factor },
    functions: {
      invocations: functions.reduce((sum, use) => sum + use.invocations, 0) * factor,
      seconds: functions.reduce((sum, use) => sum + use.seconds, 0) * factor,
    },
    requestsPerRollout: Object.fromEntries(requests.map(([name, use]) => [name, use.requests / rollouts])),
    refusedPerRollout: Object.fromEntries(refused.map(([name, use]) => [name, use.refused / rollouts])),
    usd: dollarsOf(window, factor),
    monthlyUsd: monthlyDollarsOf(window, factor),
  };
}

const putsOf = ({ requests }: Meter): number =>
  sum([...requests].map(([name, use]) => (name.includes(" PutObject ") ? use.requests : 0)));

/** A limit and its use at the busiest moment. */
export interface LimitUse {
  readonly what: string;
  /** The partition, kind of item, prefix or function; empty for a limit of the whole table or account. */
  readonly where: string;
  readonly used: number;
  readonly limit: number;
  readonly share: number;
}

const sizeOf = (name: string) =>
  name in EVENT_FUNCTIONS ? EVENT_FUNCTIONS[name as keyof typeof EVENT_FUNCTIONS] : START_RUN;

/** In order of `share`, the largest first. */
function limitUses(meter: Meter): LimitUse[] {
  const use = (name: keyof typeof LIMITS, used: number, where = ""): LimitUse => {
    const { what, limit } = LIMITS[name];
    return { what, where, used, limit, share: used / limit };
  };
  const hottest = (rates: Rates) =>
    rates.entries().reduce((top, [name, { peak }]) => (peak > top.peak ? { name, peak } : top), { name: "", peak: 0 });
  const writes = hottest(meter.partitionWrites);
  const reads = hottest(meter.partitionReads);
  const item = [...meter.items].reduce(
    (top, [name, { largest }]) => (largest > top.largest ? { name, largest } : top),
    { name: "", largest: 0 },
  );
  const times = [...meter.functions].map(([name, { longest }]): LimitUse => {
    const { seconds } = sizeOf(name);
    const what = "seconds of a function";
    return { what, where: name, used: longest, limit: seconds, share: longest / seconds };
  });
  const all = [
    use("partitionWrites", writes.peak, writes.name),
    use("partitionReads", reads.peak, reads.name),
    use("newTableWrites", meter.table.of("write").peak),
    use("newTableReads", meter.table.of("read").peak),
    use("itemBytes", item.largest, item.name),
    use("prefixWrites", meter.bucket.of("write").peak, "the whole bucket as one prefix"),
    use("prefixReads", meter.bucket.of("read").peak, "the whole bucket as one prefix"),
    use("eventTargets", meter.events.of("targets").peak),
    use("lambdaConcurrency", meter.largestConcurrency),
    ...times,
  ];
  return all.sort((a, b) => b.share - a.share);
}

/** Dollars by line item. */
function dollarsOf({ meter, seconds }: MeasurementWindow, factor: number): Record<string, number> {
  const functions = [...meter.functions];
  const invocations = functions.reduce((sum, [, use]) => sum + use.invocations, 0);
  const gigabyteSeconds = functions.reduce(
    (sum, [name, use]) => sum + (use.seconds * sizeOf(name).megabytes) / 1024,
    0,
  );
  const emptyPolls = Object.keys(EVENT_FUNCTIONS).length * IDLE_POLLS_PER_SECOND * seconds;
  const lines = {
    "DynamoDB writes": meter.table.of("write").total * PRICES.dynamoWrite.usd,
    "DynamoDB reads": meter.table.of("read").total * PRICES.dynamoRead.usd,
    "S3 PUTs": putsOf(meter) * PRICES.s3Write.usd,
    "S3 GETs and HEADs": meter.bucket.of("read").total * PRICES.s3Read.usd,
    "EventBridge, object events": meter.events.of("objects").total * PRICES.event.usd,
    "SQS requests": (meter.queueRequests + emptyPolls) * PRICES.queue.usd,
    "Lambda invocations": invocations * PRICES.lambdaRequest.usd,
    "Lambda seconds": gigabyteSeconds * PRICES.lambdaSecond.usd,
    "CloudWatch logs": invocations * LOG_BYTES * PRICES.logs.usd,
  };
  return Object.fromEntries(Object.entries(lines).map(([line, usd]) => [line, usd * factor]));
}

function monthlyDollarsOf({ meter, tableBytes }: MeasurementWindow, factor: number): Record<string, number> {
  const objectBytes = [...meter.objects.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    "S3 bytes": objectBytes * factor * PRICES.s3Month.usd,
    "S3 tags": meter.tags * factor * PRICES.tagMonth.usd,
    "DynamoDB bytes": tableBytes * factor * PRICES.dynamoMonth.usd,
  };
}
