/** @file The command-line reference: a command's description appears as plain text in the list and in its section. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { cliReference } from "../../../docs/make/cli.ts";

test("a placeholder is not read as an HTML tag, and a bar does not end its cell", () => {
  const program = new Command("mgrpo");
  program
    .command("export")
    .description("write the weights under runs/<run>/, as fp32|bf16")
    .action(() => {});
  const reference = cliReference(program);
  expect(reference).toContain("| [`export`](#export) | write the weights under runs/&lt;run>/, as fp32\\|bf16 |");
  expect(reference).toContain("\n\nWrite the weights under runs/&lt;run>/, as fp32|bf16.\n\n");
});
