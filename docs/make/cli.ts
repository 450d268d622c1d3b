/** @file docs/cli.md, from the program's commander definitions: every command with its arguments, options, choices and defaults. */
import type { Argument, Command, Option } from "commander";

const HEADER = `# Command line

Generated from the program's own definitions by \`npm run docs\`; do not edit.

In a checkout write \`npm run mgrpo -- …\`, in a project that depends on the package \`npx mgrpo …\`. Every command has \`--help\`. A failed
command prints one line per error, which says what went wrong, where, and what to do, and exits non-zero: [troubleshooting.md](troubleshooting.md).
`;

export function cliReference(program: Command): string {
  const commands = leavesOf(program, []);
  const list = commands.map(
    ({ name, command }) => `| [\`${name}\`](#${anchorOf(name)}) | ${inCell(command.description())} |`,
  );
  const table = ["| command | what it does |", "|---|---|", ...list].join("\n");
  return `${[HEADER, table, ...commands.map(section)].join("\n\n").replace(/\n{3,}/g, "\n\n")}\n`;
}

interface Leaf {
  readonly name: string;
  readonly command: Command;
}

/** Commands with an action. A command group without one is represented by its members. */
function leavesOf(command: Command, path: readonly string[]): Leaf[] {
  const children = command.commands.flatMap((child) => leavesOf(child, [...path, child.name()]));
  return [...(path.length > 0 && hasAction(command) ? [{ name: path.join(" "), command }] : []), ...children];
}

/** Commander has no public way to ask whether a command has an action. */
function hasAction(command: Command): boolean {
  return (command as Command & { _actionHandler?: unknown })._actionHandler != null;
}

function section({ name, command }: Leaf): string {
  const usage = [
    "mgrpo",
    name,
    ...command.registeredArguments.map(usageOf),
    ...(command.options.length > 0 ? ["[options]"] : []),
  ];
  const described = command.registeredArguments.filter(({ description }) => description !== "");
  const rows = [...described.map(argumentRow), ...command.options.filter(({ hidden }) => !hidden).map(optionRow)];
  const table = rows.length > 0 ? ["| | | default |", "|---|---|---|", ...rows].join("\n") : "";
  return [`## ${name}`, inText(sentence(command.description())), `    ${usage.join(" ")}`, table]
    .filter(Boolean)
    .join("\n\n");
}

function usageOf(argument: Argument): string {
  const name = argument.name() + (argument.variadic ? "..." : "");
  return argument.required ? `<${name}>` : `[${name}]`;
}

const argumentRow = (argument: Argument) =>
  row(
    `\`${usageOf(argument)}\``,
    sentence(argument.description),
    argument.defaultValueDescription ?? argument.defaultValue,
  );

function optionRow(option: Option): string {
  const choices = option.argChoices ? ` One of ${option.argChoices.map((choice) => `\`${choice}\``).join(", ")}.` : "";
  const required = option.mandatory ? " Required." : "";
  const fallback = option.defaultValueDescription ?? option.defaultValue;
  return row(`\`${option.flags}\``, sentence(option.description) + choices + required, fallback);
}

function row(name: string, description: string, fallback: unknown): string {
  const shown = fallback === undefined || fallback === "none" ? "" : `\`${fallback}\``;
  return `| ${name} | ${inCell(description)} | ${shown} |`;
}

/** Markdown would read a placeholder such as `<run>` as an HTML tag, and not show it. */
const inText = (text: string): string => text.replaceAll("<", "&lt;");

const inCell = (text: string): string => inText(text).replaceAll("|", "\\|");

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) || capital === "" ? capital : `${capital}.`;
}

const anchorOf = (name: string) => name.toLowerCase().replaceAll(" ", "-");
