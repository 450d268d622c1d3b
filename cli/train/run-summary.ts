/** @file What a finished run prints last: its scores before and after training, and where its files are. One line of JSON without a terminal. */
import { relative } from "node:path";
import colors from "picocolors";
import { openBookEvaluations } from "../../core/monitoring/team-evaluation.ts";
import type { HeldOutGain } from "../held-out-gains.ts";
import type { RunFolder } from "../local/run-folder.ts";
import type { RunReport } from "../run-report.ts";
import { accuracy, correctOf, type DisplayedScore, duration, percent } from "../terminal/columns.ts";
import { type FlowPart, flow, terminalWidth } from "../terminal/flow.ts";
import { MGRPO } from "../terminal/name.ts";

const LABEL_WIDTH = 18;

export function printSummary(report: RunReport, folder: RunFolder): void {
  if (!process.stdout.isTTY) {
    const { run, heldOut, gains, closedBook, agents } = report;
    const files = { report: fromHere(folder.report), curve: fromHere(folder.curve) };
    console.log(JSON.stringify({ kind: "summary", run, heldOut, gains, closedBook, agents, ...files }));
    return;
  }
  console.log(`\n  ${colors.green("✔")} ${colors.bold(report.run)} finished in ${duration(report.seconds.total)}\n`);
  printScores(report);
  console.log();
  printFiles(report, folder);
}

function printScores({ evaluations, gains, steps, caseStudies, closedBook }: RunReport): void {
  const [before, after] = [openBookEvaluations(evaluations, 0), openBookEvaluations(evaluations, steps)];
  if (before.sampled && after.sampled) printLine("held-out", ...change(before.sampled, after.sampled));
  if (before.greedy && after.greedy) printLine("held-out, greedy", ...change(before.greedy, after.greedy));
  for (const one of gains) printLine("gain", ...gainParts(one));
  for (const study of caseStudies)
    if (study.temperature > 0) printLine(study.study, ...change(study.before, { ...study.after, suite: study.suite }));
  if (closedBook !== null) printLine("closed book", { text: percent(closedBook) });
}

function printFiles({ run, steps, agents, caseStudies }: RunReport, folder: RunFolder): void {
  for (const [agent, { version, checkpoint, sha256 }] of Object.entries(agents)) {
    const about = `version ${version}, sha256 ${sha256.slice(0, 12)}…`;
    printLine(agent, { text: checkpoint }, { text: about, tone: colors.dim });
  }
  printLine("report", { text: fromHere(folder.report) });
  printLine("chart", { text: fromHere(folder.curve) });
  printLine("inspect", { text: `${MGRPO} show ${run} ${steps - 1}/0/0`, tone: colors.cyan });
  if (caseStudies.length > 0)
    printLine("case studies", { text: `${MGRPO} show ${run} cases --html`, tone: colors.cyan });
}

function printLine(label: string, ...parts: readonly FlowPart[]): void {
  const indent = LABEL_WIDTH + 2;
  const name = label.length < LABEL_WIDTH ? label.padEnd(LABEL_WIDTH) : `${label}\n${" ".repeat(indent)}`;
  console.log(`  ${colors.dim(name)}${flow(parts, indent, terminalWidth())}`);
}

function change(before: DisplayedScore, after: DisplayedScore & { readonly suite: string }): FlowPart[] {
  const share = before.n === 0 ? "-" : percent(before.correct / before.n);
  const now = accuracy(after);
  const isBetter = after.correct * before.n > before.correct * after.n;
  const tone = isBetter ? colors.green : (text: string) => text;
  return [
    { text: `${share} → ${now}`, tone: () => `${share} → ${colors.bold(tone(now))}` },
    { text: `${correctOf(after)}, ${after.suite}`, tone: colors.dim },
  ];
}

function gainParts({ suite, gain, interval: { low, high } }: HeldOutGain): FlowPart[] {
  const text = `${points(gain)} points [${points(low)}, ${points(high)}]`;
  return [
    { text, tone: low > 0 ? colors.green : (plain) => plain },
    { text: suite, tone: colors.dim },
  ];
}

/** With a sign: +31.3. */
const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

function fromHere(file: string): string {
  return relative(process.cwd(), file);
}
