/** @file Counts the use of the simulated cloud, in the units of AWS's limits and bills. */
import type { BucketUse } from "./cloud/bucket.ts";
import type { TableUse } from "./cloud/dynamo.ts";

/** A total, and the highest amount in one second. */
export interface Rate {
  total: number;
  peak: number;
}

interface RunningRate extends Rate {
  /** The latest second, and its count so far. */
  second: number;
  current: number;
}

export class Rates {
  private readonly rates = new Map<string, RunningRate>();

  add(name: string, second: number, n: number): void {
    const rate = this.rates.get(name) ?? { total: 0, peak: 0, second, current: 0 };
    if (rate.second !== second) Object.assign(rate, { second, current: 0 });
    rate.current += n;
    rate.total += n;
    rate.peak = Math.max(rate.peak, rate.current);
    this.rates.set(name, rate);
  }

  of(name: string): Rate {
    return this.rates.get(name) ?? { total: 0, peak: 0 };
  }

  entries(): [string, Rate][] {
    return [...this.rates];
  }
}

/** Requests of one kind from one kind of caller. */
export interface RequestCount {
  requests: number;
  /** DynamoDB units or S3 requests. */
  units: number;
  /** Writes whose condition failed. */
  refused: number;
}

/** Sizes of items or objects of one kind, as written. */
export interface SizeStatistics {
  writes: number;
  /** Sum over all writes. */
  bytes: number;
  largest: number;
}

export interface FunctionUse {
  invocations: number;
  coldStarts: number;
  /** Failed deliveries of events. An event is delivered again until it succeeds or is dead-lettered. */
  failed: number;
  timedOut: number;
  /** Total seconds of all calls, cold starts included. */
  seconds: number;
  /** Seconds of the longest call, without its cold start. */
  longest: number;
}

/** Counts since the last `restart`. */
export class Meter {
  partitionWrites = new Rates();
  partitionReads = new Rates();
  table = new Rates();
  bucket = new Rates();
  events = new Rates();
  requests = new Map<string, RequestCount>();
  items = new Map<string, SizeStatistics>();
  objects = new Map<string, SizeStatistics>();
  functions = new Map<string, FunctionUse>();
  queueRequests = 0;
  largestConcurrency = 0;
  deadLetters = 0;
  tags = 0;
  private readonly now: () => number;

  constructor(now: () => number) {
    this.now = now;
  }

  restart(): void {
    Object.assign(this, new Meter(this.now));
  }

  second(): number {
    return Math.floor(this.now());
  }

  tableUsed(caller: string, { operation, pk, kind, readUnits, writeUnits, bytes, applied, requests }: TableUse): void {
    const second = this.second();
    if (readUnits > 0) this.partitionReads.add(pk, second, readUnits);
    if (writeUnits > 0) this.partitionWrites.add(pk, second, writeUnits);
    this.table.add("read", second, readUnits);
    this.table.add("write", second, writeUnits);
    this.countRequest(`${caller} ${operation} ${kind}`, requests, readUnits + writeUnits, applied);
    const stores = operation === "PutItem" || operation === "UpdateItem";
    if (stores && applied) countWrite(this.items, kind, bytes);
  }

  bucketUsed(caller: string, { operation, key, bytes, applied, tagged }: BucketUse): void {
    const isRead = operation === "GetObject" || operation === "HeadObject";
    const kind = kindOf(key);
    this.bucket.add(isRead ? "read" : "write", this.second(), 1);
    this.countRequest(`${caller} ${operation} ${kind}`, 1, 1, applied);
    if (operation !== "PutObject" || !applied) return;
    countWrite(this.objects, kind, bytes);
    if (tagged) this.tags += 1;
  }

  functionUse(name: string): FunctionUse {
    const none = { invocations: 0, coldStarts: 0, failed: 0, timedOut: 0, seconds: 0, longest: 0 };
    const use = this.functions.get(name) ?? none;
    this.functions.set(name, use);
    return use;
  }

  private countRequest(name: string, requests: number, units: number, applied: boolean): void {
    const use = this.requests.get(name) ?? { requests: 0, units: 0, refused: 0 };
    use.requests += requests;
    use.units += units;
    if (!applied) use.refused += 1;
    this.requests.set(name, use);
  }
}

function countWrite(sizes: Map<string, SizeStatistics>, kind: string, bytes: number): void {
  const size = sizes.get(kind) ?? { writes: 0, bytes: 0, largest: 0 };
  size.writes += 1;
  size.bytes += bytes;
  size.largest = Math.max(size.largest, bytes);
  sizes.set(kind, size);
}

/** The folder in a key: `outcomes` for `runs/<run>/outcomes/000003/1/2.json`. For a file directly in the run's folder, its name without `.json`. */
const kindOf = (key: string) => key.split("/")[2]?.replace(/\.json$/, "") ?? "";
