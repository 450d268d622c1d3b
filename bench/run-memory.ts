/**
 * @file run.memory: the peak memory of all processes of a command, in bytes; takes as long as the command. Sampled every `EVERY_MILLISECONDS` as
 * PSS, which counts a page shared by processes once in total. Linux only. The command is the default run, evaluations included, in a folder of
 * its own, or `mgrpo $MGRPO_MEASURED` in the current folder, for instance MGRPO_MEASURED="sft recipes/gazetteer --agent main --to warm".
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { print } from "./measurement.ts";
import { peakOf, requireProc } from "./process-tree.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const EVERY_MILLISECONDS = 250;
const DEFAULT_RUN = "train atlas --run memory";

requireProc("mgrpo bench run-memory");

const measured = process.env["MGRPO_MEASURED"];
const folder = temporaryFolder("bench");
const command = measured ?? DEFAULT_RUN;
const words = [fileURLToPath(builtModule("cli/mgrpo")), ...command.split(/\s+/).filter(Boolean)];
const cwd = measured === undefined ? folder : process.cwd();
const run = spawn(process.execPath, words, { cwd, stdio: ["ignore", "ignore", "inherit"] });
const peak = await peakOf([run], EVERY_MILLISECONDS);
print("run.memory", peak.bytes, "bytes", { command: `mgrpo ${command}`, processes: peak.processes });
