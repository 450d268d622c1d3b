/** @file Calls a command in this process, and gives what it printed. */
import { vi } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { parsedLines } from "./command-line.ts";

export async function printed(...args: string[]): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(`${line}\n`));
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  try {
    await buildProgram().parseAsync(args, { from: "user" });
    return lines.join("");
  } finally {
    log.mockRestore();
    write.mockRestore();
  }
}

/** Lines of JSON. */
export const told = async (...args: string[]): Promise<Record<string, unknown>[]> =>
  parsedLines(await printed(...args));
