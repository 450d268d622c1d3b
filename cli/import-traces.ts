/** @file `mgrpo import-traces`: traces of existing agents become a file of demonstrations. The summary prints none of their messages. */
import { existsSync, readFileSync } from "node:fs";
import colors from "picocolors";
import { MgrpoError } from "../core/errors.ts";
import { importTraces, type TraceFile, type TraceImportOptions } from "../sft/traces/import.ts";
import type { ImportReport } from "../sft/traces/import-report.ts";
import { writeNamedFile } from "./local/written-files.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

export interface ImportTracesOptions {
  readonly to: string;
  readonly agent?: string;
  readonly as?: string;
  readonly where: readonly string[];
  readonly score?: string;
  readonly minScore?: number;
  readonly system: boolean;
}

/** Nothing is overwritten, and nothing is written if no conversation can be taken. */
export async function importTracesTo(files: readonly string[], options: ImportTracesOptions): Promise<void> {
  const { to } = options;
  if (existsSync(to)) throw new MgrpoError("config-invalid", `--to ${to} exists: name a file that does not`);
  const { lines, report } = importTraces(read(files), importOptions(options));
  if (lines.length === 0) throw nothingTaken(report);
  writeNamedFile("--to", to, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  for (const line of summary(report, to, lines.length, files.length)) console.log(line);
}

function importOptions({ agent, as, where, score, minScore, system }: ImportTracesOptions): TraceImportOptions {
  if ((score === undefined) !== (minScore === undefined)) {
    throw new MgrpoError("config-invalid", "--score <name> and --min-score <x> go together: give both");
  }
  const conditions = where.map((condition) => {
    const [attribute = "", ...value] = condition.split("=");
    if (attribute !== "" && value.length > 0) return { attribute, value: value.join("=") };
    throw new MgrpoError("config-invalid", `--where ${condition}: write <attribute>=<value>`);
  });
  return {
    ...(agent === undefined ? {} : { agent }),
    ...(as === undefined ? {} : { as }),
    ...(score === undefined || minScore === undefined ? {} : { score: { name: score, min: minScore } }),
    conditions,
    system,
  };
}

const FAULTS: Readonly<Record<string, string>> = { ENOENT: "no such file", EISDIR: "a folder: name its files" };

function* read(files: readonly string[]): Generator<TraceFile> {
  for (const file of files) {
    try {
      yield { file, bytes: readFileSync(file) };
    } catch (error) {
      const { code = "", message } = error as NodeJS.ErrnoException;
      throw new MgrpoError("demonstrations-invalid", `${file}: ${FAULTS[code] ?? `cannot be read (${message})`}`);
    }
  }
}

function nothingTaken(report: ImportReport): MgrpoError {
  const reasons = skippedOf(report).map(({ count, why }) => `${count}: ${why}`);
  const spans = report.otherSpans > 0 ? ` among ${count(report.otherSpans, "span")}` : "";
  const calls = report.found === 0 ? `no model calls${spans}` : `none of ${report.found} model calls`;
  return new MgrpoError("demonstrations-invalid", [`${calls} can be taken`, ...reasons].join("; "));
}

const skippedOf = ({ skipped }: ImportReport) =>
  [...skipped]
    .map(([reason, { count, first }]) => ({ count, why: `${reason} (${count > 1 ? "first " : ""}${first})` }))
    .sort((a, b) => b.count - a.count);

function* summary(report: ImportReport, to: string, conversations: number, files: number): Generator<string> {
  const { found, contained, cut, otherSpans, providerTools, taken } = report;
  const agents = taken.map(({ agent, count }) => `${stripControlCharacters(agent ?? "no agent named")} ${count}`);
  yield `${to}  ${count(conversations, "conversation")}: ${agents.join(", ")}`;
  yield `  from ${count(found, "model call")} (${contained} contained in another) in ${count(files, "file")}`;
  if (otherSpans > 0) yield `  ${count(otherSpans, "other span")}`;
  if (cut > 0) yield `  ${cut} taken up to their second prompt: a demonstration has one`;
  if (providerTools > 0)
    yield `  left out: ${count(providerTools, "definition")} of tools that no recipe can have, such as the provider's own`;
  const skipped = skippedOf(report);
  if (skipped.length > 0) yield `  skipped: ${skipped.reduce((sum, one) => sum + one.count, 0)}`;
  for (const { count: skips, why } of skipped) yield `    ${skips}  ${why}`;
  for (const { agent, systems } of taken) {
    if (systems < 2) continue;
    const whose = agent === undefined ? "" : ` of ${stripControlCharacters(agent)}`;
    yield colors.yellow(
      `  ${systems} different system messages${whose}, and an agent has one: --no-system leaves them out`,
    );
  }
  const from = `--demonstrations ${quotedPath(to)}${agentOption(report)}`;
  yield colors.dim(`  train: ${MGRPO} sft <recipe> ${from} --to <folder>`);
}

/** `sft` needs no `--agent` if the file has demonstrations of several agents, and each names its agent. */
function agentOption({ taken }: ImportReport): string {
  const [only, ...others] = taken.map(({ agent }) => agent);
  if (others.length > 0 && taken.every(({ agent }) => agent !== undefined)) return "";
  return others.length === 0 && only !== undefined && /^[\w-]+$/.test(only) ? ` --agent ${only}` : " --agent <name>";
}

const count = (n: number, noun: string) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
