/**
 * @file `npm run bits -- runs/<run>`: compares the weights of a finished run of `npm start -- --seed 7`, by its report, with those that
 * results/bits.json records for its number of steps. Exit code 1 if they differ on a kind of machine that is recorded, 2 if the run is not
 * one that is recorded.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { RunReport } from "../../cli/run-report.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { Bits, compareBits, thisMachine, type Verdict } from "./bits.ts";

const RECORD = resolve(import.meta.dirname, "../../results/bits.json");
const EXIT_CODES: Record<Verdict["is"], number> = { same: 0, "another machine": 0, changed: 1, "another run": 2 };
const REMEDY =
  "if the run had settings of its own, repeat it without them; if the code is meant to compute different bits, record them in results/bits.json";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: npm run bits -- runs/<run>");
const path = join(folder, "report.json");
const report = parseJson(RunReport, readFileSync(path), path);
const { is, message } = compareBits(parseJson(Bits, readFileSync(RECORD), RECORD), report, thisMachine());
console.log(`${folder}: ${message}`);
if (is === "changed") console.log(`  ${REMEDY}`);
process.exitCode = EXIT_CODES[is];
