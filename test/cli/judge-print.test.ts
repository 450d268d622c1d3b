/** @file How the agreement of a judge looks on a terminal. */
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { print } from "../../cli/judge/print.ts";
import { agreementOf } from "../../core/training/agreement.ts";

const wasTerminal = process.stdout.isTTY;
afterEach(() => {
  process.stdout.isTTY = wasTerminal;
  vi.restoreAllMocks();
});

test("each count of the confusion matrix is right-aligned with its heading", () => {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((text = "") => void lines.push(stripVTControlCharacters(text)));
  process.stdout.isTTY = true;
  const agreement = agreementOf([
    { label: true, judged: true },
    { label: false, judged: true },
  ]);
  print({ kind: "answers", agreement, disagreements: [], cost: undefined });
  const heading = lines.find((line) => line.includes("judged correct")) ?? expect.fail();
  const counts = lines.find((line) => line.startsWith("  labeled correct")) ?? expect.fail();
  const columnEnds = ["judged correct", "judged wrong"].map((title) => heading.indexOf(title) + title.length);
  expect([counts.indexOf("1") + 1, counts.length]).toEqual(columnEnds);
});
