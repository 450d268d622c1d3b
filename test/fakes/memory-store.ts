/** @file The store in memory, for tests of everything above it. It passes the contract suites that the adapters pass. */
import { expressionsOf } from "../../adapters/aws/expression.ts";
import { itemBytes } from "../../adapters/aws/item-bytes.ts";
import { expressionFault, isStorable } from "../../adapters/aws/limits.ts";
import { ITEM_BYTES } from "../../core/contracts/bounds.ts";
import type { TableKey } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type {
  Clock,
  ObjectStore,
  Table,
  TableChange,
  TableCondition,
  TableItem,
  TablePath,
  TableValue,
} from "../../core/ports.ts";

type Tree = { [key: string]: TableValue | undefined };

export function memoryStore() {
  return {
    objects: memoryObjects(),
    table: memoryTable(),
    clock: memoryClock(),
    close() {},
  };
}

function memoryObjects(): ObjectStore & { keys(): string[] } {
  const objects = new Map<string, Uint8Array>();
  return {
    async commit(key, body) {
      const existing = objects.get(key);
      if (!existing) objects.set(key, Uint8Array.from(body));
      return !existing || Buffer.compare(existing, body) === 0;
    },
    async get(key) {
      const body = objects.get(key);
      return body && Uint8Array.from(body);
    },
    async head(key) {
      return objects.get(key)?.length;
    },
    async delete(keys) {
      for (const key of keys) objects.delete(key);
    },
    keys: () => [...objects.keys()].sort(),
  };
}

export function memoryTable(): Table {
  const items = new Map<string, { pk: string; sk: string; item: Tree }>();
  const address = (key: { pk: string; sk: string }) => JSON.stringify([key.pk, key.sk]);
  const read = (key: { pk: string; sk: string }) => {
    const row = items.get(address(key));
    return row && plain(row.item);
  };
  return {
    get: async (key) => read(key),
    getAll: async (keys) => keys.map(read),
    async insert(key, item) {
      if (items.has(address(key))) return false;
      refuseLargeItem(key, item);
      items.set(address(key), { pk: key.pk, sk: key.sk, item: plain(item) });
      return true;
    },
    async update(change) {
      const { update: UpdateExpression, condition: ConditionExpression } = expressionsOf(change);
      const fault = expressionFault({ UpdateExpression, ConditionExpression });
      if (fault !== undefined) throw refused(fault);
      const row = items.get(address(change.key));
      if (!row) return { applied: false, item: undefined };
      if (!change.when.every((condition) => holds(condition, row.item)))
        return { applied: false, item: plain(row.item) };
      const after = changed(row.item, change);
      refuseLargeItem(change.key, plain(after));
      row.item = after;
      return { applied: true, item: plain(row.item) };
    },
    async delete(key) {
      items.delete(address(key));
    },
    async query(pk, prefix) {
      return [...items.values()]
        .filter((row) => row.pk === pk && row.sk.startsWith(prefix))
        .sort((a, b) => Buffer.compare(Buffer.from(a.sk), Buffer.from(b.sk)))
        .map((row) => plain(row.item));
    },
  };
}

function memoryClock(): Clock {
  return {
    monotonic: () => performance.now() / 1000,
    storeTime: async () => Date.now(),
    sleep: (seconds, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const timer = setTimeout(done, seconds * 1000);
        function done() {
          clearTimeout(timer);
          signal?.removeEventListener("abort", done);
          resolve();
        }
        signal?.addEventListener("abort", done, { once: true });
      }),
  };
}

/** A copy without undefined entries, as serialization makes it; refuses what serialization refuses. */
function plain(value: TableItem | Tree): Tree & TableItem {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => {
      if (typeof inner === "number" && !isStorable(inner)) throw refused(`${key} is ${inner}`);
      return inner;
    }),
  );
}

function at(item: Tree, path: TablePath): TableValue | undefined {
  let value: TableValue | undefined = item;
  for (const name of path) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    value = (value as Tree)[name];
  }
  return value;
}

function holds(condition: TableCondition, item: Tree): boolean {
  if ("exists" in condition) return at(item, condition.exists) !== undefined;
  if ("absent" in condition) return at(item, condition.absent) === undefined;
  return same(at(item, condition.equals[0]), condition.equals[1]);
}

function same(a: TableValue | undefined, b: TableValue): boolean {
  const sorted = (value: unknown) =>
    JSON.stringify(value, (_key, inner) =>
      inner !== null && typeof inner === "object" && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([x], [y]) => (x < y ? -1 : 1)))
        : inner,
    );
  return a !== undefined && sorted(a) === sorted(b);
}

function changed(item: Tree, change: TableChange): Tree {
  const after = plain(item) as Tree;
  for (const [path, value] of change.set ?? []) {
    parent(after, path)[last(path)] = plain({ value })["value"];
  }
  for (const [path, n] of change.add ?? []) {
    if (path.length !== 1) throw refused(`add ${path.join(".")}: only attributes can be added to`);
    after[last(path)] = Number(after[last(path)] ?? 0) + n;
  }
  for (const path of change.remove ?? []) delete parent(after, path)[last(path)];
  return after;
}

/** The map that holds the last name of the path. Throws if there is none: DynamoDB creates no missing parent maps. */
function parent(item: Tree, path: TablePath): Tree {
  const value = at(item, path.slice(0, -1));
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw refused(`${path.join(".")}: no such map in the item`);
  return value as Tree;
}

function last(path: TablePath): string {
  const name = path.at(-1);
  if (name === undefined) throw refused("empty path");
  return name;
}

function refuseLargeItem(key: TableKey, item: TableItem): void {
  const bytes = itemBytes({ ...item, ...key });
  if (bytes > ITEM_BYTES) throw refused(`an item of ${bytes} bytes`);
}

const refused = (what: string) => new MgrpoError("record-damaged", `the table refused a write: ${what}`);
