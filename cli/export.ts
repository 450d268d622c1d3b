/**
 * @file `mgrpo export`: the trained weights of a finished run as Hugging Face folders, runs/<run>/checkpoints/<agent>/. A run that
 * `mgrpo train` finished here has them already; this is for runs on the store that the environment names.
 */
import { exportCheckpoints } from "./local/finish.ts";
import { runFolder } from "./local/run-folder.ts";
import { openSource } from "./show/source.ts";

export async function exportRun(run: string): Promise<void> {
  const { config, read } = await openSource(run);
  const agents = await read((store) => exportCheckpoints(store, config, runFolder(config.run)));
  for (const [agent, result] of Object.entries(agents)) {
    if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "checkpoint", agent, ...result }));
    else console.log(`  ${agent.padEnd(20)}${result.checkpoint}  version ${result.version}, sha256 ${result.sha256}`);
  }
}
