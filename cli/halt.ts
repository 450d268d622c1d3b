/**
 * @file `mgrpo halt`: stops a run on a stage of `sst deploy`, or in the store that the environment names. Its workers exit and its fleets
 * scale to zero. Launching it again resumes it. A run that has finished training can be halted until its last evaluation is done.
 */
import * as z from "zod";
import { openAwsStore } from "../adapters/aws/store.ts";
import type { Halt } from "../core/contracts/halt.ts";
import { tableKeys, tablePrefixes } from "../core/contracts/keys.ts";
import { parse } from "../core/contracts/parse.ts";
import { JobRecord, RunRecord } from "../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import { haltRun } from "../core/training/halt-run.ts";
import { allRuns } from "../core/training/run-list.ts";
import { endRun } from "../core/training/writes.ts";
import { namesOfStage } from "./deployment.ts";
import { readWait } from "./local/follow.ts";
import { findRun, readStatus, runNames } from "./local/run-folder.ts";
import { readStored } from "./show/source.ts";
import { namesStore, storeNames } from "./store-names.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { MGRPO } from "./terminal/name.ts";

/** What is read from a RUN record, which another release may have written: halting is the remedy for a run whose records cannot be read. */
const EndedRun = z.object(RunRecord.shape).pick({ run: true, status: true, reason: true });
type EndedRun = z.infer<typeof EndedRun>;

const BY_HAND: Halt = { code: "user", reason: "halted by its user; launch it again to resume" };

export async function halt(run: string, { stage }: { readonly stage?: string }): Promise<void> {
  if (stage === undefined && !namesStore()) refuseLocalRun(run);
  const names = stage === undefined ? storeNames("halt") : await namesOfStage(stage);
  const store = openAwsStore(names);
  try {
    const { item } = await store.table.update(endRun(run, BY_HAND));
    if (!item) throw await noRun(store, run, names);
    const ended = parse(EndedRun, item, `RUN '${run}'`);
    const { status, reason } = ended.status === "finished" ? await haltEvaluations(store, ended) : ended;
    const text = status === "finished" ? "finished and evaluated: there is nothing to halt" : status;
    if (process.stdout.isTTY)
      console.log(`run '${run}' is ${text}${reason ? `: ${stripControlCharacters(reason)}` : ""}`);
    else console.log(JSON.stringify({ kind: status === "halted" ? "halted" : "unchanged", run, status, reason }));
  } finally {
    store.close();
  }
}

async function noRun({ table }: Store, run: string, names: ReturnType<typeof storeNames>): Promise<MgrpoError> {
  const list = `MGRPO_TABLE=${names.table} MGRPO_BUCKET=${names.bucket} ${MGRPO} runs`;
  return new MgrpoError("not-found", `no run '${run}' in table '${names.table}': list them with \`${list}\``, {
    unknownNames: [{ unknown: run, known: await allRuns(table) }],
  });
}

/** The resulting run. */
async function haltEvaluations(store: Store, finished: EndedRun): Promise<EndedRun> {
  const { run } = finished;
  if (!(await hasEvaluationsLeft(store, run))) return finished;
  return parse(EndedRun, (await haltRun(store.table, run, BY_HAND)).item, `RUN '${run}'`);
}

/** Works even if records cannot be read, as after a change of release: a run that could not be halted would fail every tick for good. */
async function hasEvaluationsLeft(store: Store, run: string): Promise<boolean> {
  try {
    const { config } = await readStored(store, run);
    return (await readWait(store, config)) !== undefined;
  } catch (error) {
    if (!isMgrpoError(error, "record-damaged", "not-found")) throw error;
    const jobs = await store.table.query(tableKeys.run(run).pk, tablePrefixes.jobs);
    return jobs.some((job) => JobRecord.safeParse(job).data?.state !== "done");
  }
}

/** `halt` writes to a store that several machines share. A local run is in no such store: only its own process can stop it. */
function refuseLocalRun(run: string): never {
  const folder = findRun(run);
  if (!folder)
    throw new MgrpoError(
      "not-found",
      `no run '${run}' on this machine: for a run on a stage add --stage <name>, for one in a store set MGRPO_TABLE and MGRPO_BUCKET`,
      { unknownNames: [{ unknown: run, known: runNames() }] },
    );
  const { state, pid } = readStatus(folder);
  const advice =
    state === "running"
      ? `press Ctrl-C where it runs, or \`kill ${pid}\`; \`${MGRPO} resume ${run}\` continues it`
      : `it is ${state}, so there is nothing to halt`;
  throw new MgrpoError("config-invalid", `'${run}' is a local run, and halt is for runs in a store: ${advice}`);
}
