/**
 * @file `mgrpo export`: writes a finished run's weights as Hugging Face folders, runs/<run>/checkpoints/<agent>/. `mgrpo train` has already
 * written them for its own runs. This command is for runs in the store that the environment names, and for merged or converted weights,
 * which go into folders next to that one.
 */
import { MgrpoError } from "../core/errors.ts";
import type { ExportForm } from "./local/export-form.ts";
import { exportCheckpoints } from "./local/finish.ts";
import { runFolder } from "./local/run-folder.ts";
import { openSource } from "./show/source.ts";

export async function exportRun(run: string, { merged = false, dtype }: Partial<ExportForm>): Promise<void> {
  const { config, read } = await openSource(run);
  if (merged && Object.values(config.agents).every(({ lora }) => lora === null)) {
    throw new MgrpoError("config-invalid", `--merged: run '${run}' trained no adapter to merge: leave it out`);
  }
  const folder = [runFolder(config.run).checkpoints, ...(merged ? ["merged"] : []), ...(dtype ? [dtype] : [])].join(
    "-",
  );
  const agents = await read((store) => exportCheckpoints(store, config, folder, { merged, dtype }));
  for (const [agent, result] of Object.entries(agents)) {
    if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "checkpoint", agent, ...result }));
    else console.log(`  ${agent.padEnd(20)}${result.checkpoint}  version ${result.version}, sha256 ${result.sha256}`);
  }
}
