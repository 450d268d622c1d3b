/** @file Runs a command in this process, and returns what it prints on stdout. */
import { vi } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { parsedLines } from "./command-line.ts";

export const printed = (...args: string[]): Promise<string> =>
  printedBy(async () => {
    await buildProgram().parseAsync(args, { from: "user" });
  });

/** What `work` prints on stdout. */
export async function printedBy(work: () => Promise<void>): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(`${line}\n`));
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    lines.push(String(text));
    return true;
  });
  try {
    await work();
    return lines.join("");
  } finally {
    log.mockRestore();
    write.mockRestore();
  }
}

/** The printed lines, parsed as JSON. */
export const printedJson = async (...args: string[]): Promise<Record<string, unknown>[]> =>
  parsedLines(await printed(...args));
