/** @file The command line as definitions: complete, so that the help and docs/cli.md say everything. */
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../cli/program.ts";

/** `mgrpo cloud serve` with its definition, for every command. */
const commandsOf = (command: Command, path: string): [string, Command][] => [
  [path, command],
  ...command.commands.flatMap((inner) => commandsOf(inner, `${path} ${inner.name()}`)),
];
const COMMANDS = commandsOf(buildProgram(), "mgrpo");

test("there are all commands, each once", () => {
  const names = COMMANDS.map(([name]) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const name of ["train", "eval", "runs show", "judge check", "cloud serve", "pretrain"])
    expect(names).toContain(`mgrpo ${name}`);
});

test.each(COMMANDS)("%s: one line for it, and for each argument and option", (_name, command) => {
  const texts = [
    command.description(),
    ...command.registeredArguments.map(({ description }) => description),
    ...command.options.map(({ description }) => description),
  ];
  for (const text of texts) expect(text).toMatch(/^\S[^\n]{9,}[^\s.]$|\.$/);
});
