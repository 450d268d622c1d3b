/** @file The command definitions are complete. The help and docs/cli.md are generated from them. */
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../cli/program.ts";

/** Every command with its full name, such as `mgrpo cloud serve`. */
const commandsOf = (command: Command, path: string): [string, Command][] => [
  [path, command],
  ...command.commands.flatMap((inner) => commandsOf(inner, `${path} ${inner.name()}`)),
];
const COMMANDS = commandsOf(buildProgram(), "mgrpo");

test("every command is defined once", () => {
  const names = COMMANDS.map(([name]) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const name of ["train", "eval", "runs show", "judge check", "cloud serve", "pretrain"])
    expect(names).toContain(`mgrpo ${name}`);
});

test.each(COMMANDS)("%s and its arguments and options have one-line descriptions", (_name, command) => {
  const texts = [
    command.description(),
    ...command.registeredArguments.map(({ description }) => description),
    ...command.options.map(({ description }) => description),
  ];
  for (const text of texts) expect(text).toMatch(/^\S[^\n]{9,}\S$/);
});
