/** @file The last words of a finished run: held-out scores before and after, and where everything lies. */

import { relative } from "node:path";
import colors from "picocolors";
import type { RunFolder } from "../local/run-folder.ts";
import { openBook, type Report } from "../run-report.ts";
import { accuracy, duration, percent, type Shown } from "./columns.ts";
import { MGRPO } from "./name.ts";

const LABEL = 20;

export function printSummary(report: Report, folder: RunFolder): void {
  const path = (file: string) => relative(process.cwd(), file);
  if (!process.stdout.isTTY) {
    const { heldOut, closedBook, agents } = report;
    const files = { report: path(folder.report), curve: path(folder.curve) };
    console.log(JSON.stringify({ kind: "summary", run: report.run, heldOut, closedBook, agents, ...files }));
    return;
  }
  const line = (label: string, text: string) => console.log(`  ${colors.dim(label.padEnd(LABEL))}${text}`);
  console.log(`\n  ${colors.green("✔")} ${colors.bold(report.run)} finished in ${duration(report.seconds.total)}\n`);
  const [before, after] = [openBook(report.evaluations, 0), openBook(report.evaluations, report.steps)];
  if (before.sampled && after.sampled) line("held-out", change(before.sampled, after.sampled));
  if (before.greedy && after.greedy) line("held-out, greedy", change(before.greedy, after.greedy));
  for (const { study, temperature, before, after } of report.caseStudies) {
    if (temperature > 0) line(study, change(before, after));
  }
  if (report.closedBook !== null) line("closed book", percent(report.closedBook));
  console.log();
  for (const [agent, { version, checkpoint, sha256 }] of Object.entries(report.agents)) {
    line(agent, `${checkpoint}  ${colors.dim(`version ${version}, sha256 ${sha256.slice(0, 12)}…`)}`);
  }
  line("report", path(folder.report));
  line("picture", path(folder.curve));
  line("look inside", colors.cyan(`${MGRPO} show ${report.run} ${report.steps - 1}/0/0`));
  if (report.caseStudies.length > 0) line("case studies", colors.cyan(`${MGRPO} show ${report.run} cases --html`));
}

function change(before: Shown, after: Shown): string {
  const share = before.n === 0 ? "-" : percent(before.correct / before.n);
  return `${share} → ${colors.bold(colors.green(accuracy(after)))}  ${colors.dim(`${after.correct} of ${after.n}`)}`;
}
