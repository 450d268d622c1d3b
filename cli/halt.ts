/**
 * @file `mgrpo halt`: stops a run on a stage of `sst deploy`, or on the store that the environment names. Its workers exit and its fleets
 * scale to zero. Launching it again resumes it.
 */
import { openAwsStore } from "../adapters/aws/store.ts";
import { parse } from "../core/contracts/parse.ts";
import { RunRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import { endRun } from "../core/training/writes.ts";
import { namesOfStage } from "./deployment.ts";
import { storeNames } from "./store-names.ts";
import { clean } from "./terminal/clean.ts";
import { MGRPO } from "./terminal/name.ts";

const REASON = "halted by its user; launch it again to resume";

export async function halt(run: string, { stage }: { readonly stage?: string }): Promise<void> {
  const names = stage === undefined ? storeNames("halt") : await namesOfStage(stage);
  const store = openAwsStore(names);
  try {
    const { item } = await store.table.update(endRun(run, "halted", REASON));
    if (!item) throw new MgrpoError("not-found", `no run '${run}' in table '${names.table}': ${MGRPO} runs lists them`);
    const { status, reason } = parse(RunRecord, item, `RUN '${run}'`);
    if (process.stdout.isTTY) console.log(`run '${run}' is ${status}${reason ? `: ${clean(reason)}` : ""}`);
    else console.log(JSON.stringify({ kind: "halted", run, status, reason }));
  } finally {
    store.close();
  }
}
