/**
 * @file `mgrpo cloud check`: tests everything that this program needs from a store, on the endpoints that the environment names. It writes
 * under a prefix of its own and deletes those records afterward, even if Ctrl-C or SIGTERM stops it; a second signal ends it at once. Exit code
 * 1 if something does not work, 130 if stopped.
 */
import { randomBytes } from "node:crypto";
import colors from "picocolors";
import { deleteItems } from "../../adapters/aws/setup.ts";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { type ContractCheck, type FreshKeys, openFreshKeys } from "../../adapters/store-contract/check.ts";
import { clockChecks } from "../../adapters/store-contract/clock.ts";
import { multipartChecks, objectChecks } from "../../adapters/store-contract/objects.ts";
import { tableChecks } from "../../adapters/store-contract/table.ts";
import type { TableKey } from "../../core/contracts/keys.ts";
import { errorText } from "../../core/errors.ts";
import type { ObjectStore, Table } from "../../core/ports.ts";
import { onStopSignal } from "../../gpu-workers/stop-signals.ts";
import { storeNames } from "../store-names.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { hanging } from "../terminal/rows.ts";
import { withEndpoints } from "./clients.ts";

/** S3's minimum part size, so that the multipart tests are small. */
const SMALL_PARTS = { fromBytes: 5 * 2 ** 20, bytes: 5 * 2 ** 20 };

interface Behavior {
  readonly about: "objects" | "table" | "clock";
  readonly name: string;
  /** Why it does not work; undefined if it works. */
  readonly fault: string | undefined;
}

export async function check(): Promise<void> {
  const names = storeNames("cloud check");
  const trial = `${Date.now().toString(36)}-${randomBytes(4).toString("hex")}`;
  const store = openAwsStore(names);
  const inParts = openAwsStore({ ...names, parts: SMALL_PARTS });
  const objects = recordingCommits(store.objects);
  const parts = recordingCommits(inParts.objects);
  const table = recordingWrites(store.table);
  let [working, broken] = [0, 0];
  const stop = new AbortController();
  let stopListening = () => {};
  try {
    // Reports an unreachable store in one clear line, not one per behavior.
    await store.table.get({ pk: `CHECK#${trial}`, sk: "CHECK" });
    await store.objects.get(`check/${trial}`);
    // Before the first write. A stop waits for the behavior under test: anything that it wrote after the cleanup would remain.
    stopListening = onStopSignal(() => stop.abort());
    const [keys, items] = [openFreshKeys(`check/${trial}`), openFreshKeys(`CHECK#${trial}`)];
    const all = [
      runChecks("objects", objectChecks, objects.store, keys),
      runChecks("objects", multipartChecks, parts.store, keys),
      runChecks("table", tableChecks, table.store, items),
      runChecks("clock", clockChecks, store.clock, keys),
    ];
    for (const behaviors of all)
      for await (const behavior of behaviors) {
        print(behavior);
        if (behavior.fault === undefined) working += 1;
        else broken += 1;
        if (stop.signal.aborted) {
          console.error("stopped: the check is incomplete");
          process.exitCode = 130;
          return;
        }
      }
    summarize(working, broken);
    if (broken > 0) process.exitCode = 1;
  } finally {
    await cleanUp(
      store.objects.delete([...objects.keys, ...parts.keys]),
      withEndpoints(({ dynamo, callApi }) =>
        callApi("dynamo", "delete the check's items", () => deleteItems(dynamo, names.table, table.keys)),
      ),
    );
    store.close();
    inParts.close();
    stopListening();
  }
}

/** A deletion that fails is only a warning, so it hides no result. */
async function cleanUp(...deletions: Promise<unknown>[]): Promise<void> {
  for (const settled of await Promise.allSettled(deletions)) {
    if (settled.status === "fulfilled") continue;
    const { reason } = settled;
    const why = stripControlCharacters(errorText(reason));
    console.error(`warning: the check's records are left in the store: ${why}`);
  }
}

async function* runChecks<Port>(
  about: Behavior["about"],
  checks: readonly ContractCheck<Port>[],
  port: Port,
  keys: FreshKeys,
): AsyncGenerator<Behavior> {
  for (const { name, verify } of checks) {
    const fault = await verify(port, keys).then(() => undefined, errorText);
    yield { about, name, fault: fault?.split("\n", 1)[0] };
  }
}

/** The same store; records the keys of committed objects. */
function recordingCommits(store: ObjectStore): { store: ObjectStore; keys: string[] } {
  const keys: string[] = [];
  const commit: ObjectStore["commit"] = (key, body) => {
    keys.push(key);
    return store.commit(key, body);
  };
  return { store: { ...store, commit }, keys };
}

/** The same table; records the keys of inserted and updated items: a faulty store may create an item on update. */
function recordingWrites(store: Table): { store: Table; keys: TableKey[] } {
  const keys: TableKey[] = [];
  const insert: Table["insert"] = (key, item) => {
    keys.push(key);
    return store.insert(key, item);
  };
  const update: Table["update"] = (change) => {
    keys.push(change.key);
    return store.update(change);
  };
  return { store: { ...store, insert, update }, keys };
}

function print({ about, name, fault }: Behavior): void {
  const works = fault === undefined;
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "behavior", about, name, works, ...(!works && { fault }) }));
    return;
  }
  const mark = works ? colors.green("✔") : colors.red("✘");
  for (const line of hanging(`  ${mark} ${about.padEnd(9)}`, name)) console.log(line);
  if (!works) for (const line of hanging(" ".repeat(13), colors.red(stripControlCharacters(fault)))) console.log(line);
}

function summarize(working: number, broken: number): void {
  if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "check", working, broken }));
  else if (broken === 0) console.log(`\n  all ${working} behaviors work: runs can use this store`);
  else
    console.log(`\n  ${broken} of ${working + broken} behaviors do not work: do not rely on results from this store`);
}
