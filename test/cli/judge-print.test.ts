/** @file How the agreement of a judge looks on a terminal. */
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { printJudgeCheck } from "../../cli/judge/print.ts";
import { agreementOf, type LabeledAnswer } from "../../core/training/agreement.ts";

const wasTerminal = process.stdout.isTTY;
afterEach(() => {
  process.stdout.isTTY = wasTerminal;
  vi.restoreAllMocks();
});

/** The lines that a terminal shows. */
function printedLines(...answers: readonly LabeledAnswer[]): string[] {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((text = "") => void lines.push(stripVTControlCharacters(text)));
  process.stdout.isTTY = true;
  printJudgeCheck({ kind: "answers", agreement: agreementOf(answers), disagreements: [], cost: undefined });
  return lines;
}

test("each count of the confusion matrix is right-aligned with its heading", () => {
  const lines = printedLines({ label: true, judged: true }, { label: false, judged: true });
  const heading = lines.find((line) => line.includes("judged correct")) ?? expect.fail();
  const columnEnds = ["judged correct", "judged wrong"].map((title) => heading.indexOf(title) + title.length);
  for (const label of ["correct", "wrong"]) {
    const counts = lines.find((line) => line.startsWith(`  labeled ${label}`)) ?? expect.fail();
    expect([counts.indexOf("1") + 1, counts.length]).toEqual(columnEnds);
  }
});

test("kappa is undefined only if all labels and verdicts are the same; identical verdicts on different labels have kappa 0", () => {
  const same = printedLines({ label: true, judged: true });
  expect(same).toContain("  kappa      - (all labels and verdicts are the same)");
  const lenient = printedLines({ label: true, judged: true }, { label: false, judged: true });
  expect(lenient).toContain("  kappa      0.00");
});
