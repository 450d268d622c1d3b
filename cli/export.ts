/**
 * @file `mgrpo export`: writes a run's weights after its last finished step as Hugging Face folders, runs/<run>/checkpoints/<agent>/.
 * `mgrpo train` has already written them for its own finished runs. This command is for runs in the store that the environment names, for halted
 * and running ones, and for merged or converted weights. Weights of an unfinished run, merged weights and converted weights each go into a
 * folder of their own next to `checkpoints`.
 */
import { MgrpoError } from "../core/errors.ts";
import type { ExportForm } from "./local/export-form.ts";
import { exportCheckpoints } from "./local/finish.ts";
import { readRun } from "./local/read-records.ts";
import { runFolder } from "./local/run-folder.ts";
import { openSource } from "./show/source.ts";

export async function exportRun(run: string, { merged = false, dtype }: Partial<ExportForm>): Promise<void> {
  const { config, read } = await openSource(run);
  if (merged && Object.values(config.agents).every(({ lora }) => lora === null)) {
    throw new MgrpoError("config-invalid", `--merged: run '${run}' trained no adapter to merge: leave it out`);
  }
  const agents = await read(async (store) => {
    const { status, step } = await readRun(store, config.run);
    const { checkpoints } = runFolder(config.run);
    const names = [checkpoints, status !== "finished" && `step${step}`, merged && "merged", dtype];
    // The step that names the folder, not the newest one: a running run advances meanwhile.
    return exportCheckpoints(store, config, names.filter(Boolean).join("-"), step, { merged, dtype });
  });
  for (const [agent, result] of Object.entries(agents)) {
    if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "checkpoint", agent, ...result }));
    else console.log(`  ${agent.padEnd(20)}${result.checkpoint}  version ${result.version}, sha256 ${result.sha256}`);
  }
}
