/**
 * @file Every command that the documentation writes out has the arguments and options that the program requires, and no others. A name
 * alone, such as `mgrpo sft`, or with one flag, such as `mgrpo sft --to`, is a mention and is not checked.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../cli/program.ts";

const ROOT = resolve(import.meta.dirname, "..");
/** Without recipes/small-models, which has no README, and docs/cli.md, which is generated from the program. */
const DOCUMENTS = [
  ...["README.md", "CONTRIBUTING.md", "create/README.md", "create/template/README.md", "results/README.md"],
  "bench/peers/README.md",
  ...readdirSync(join(ROOT, "docs")).flatMap((name) => (name.endsWith(".md") ? [`docs/${name}`] : [])),
  ...readdirSync(join(ROOT, "recipes")).flatMap((name) => (name.includes(".") ? [] : [`recipes/${name}/README.md`])),
].filter((document) => !/small-models|docs\/cli\.md/.test(document));

const STARTS: readonly (readonly [RegExp, string])[] = [
  [/^(?:npm run (?:-s )?mgrpo -- |npx mgrpo |mgrpo )/, ""],
  [/^npm start -- /, "train recipes/atlas "],
  [/^npm run compare -- /, "compare recipes/atlas "],
];

/** The commands in a document's indented and fenced lines, and in its inline code, each as its arguments. */
function commandsIn(document: string): string[] {
  const text = readFileSync(join(ROOT, document), "utf8").replace(/\\\n\s*/g, " ");
  const inline = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
  return [...text.split("\n"), ...inline].flatMap((line) => {
    const [command = ""] = line.trim().split(/\s+#\s| {4,}| && | \| /);
    const start = STARTS.find(([pattern]) => pattern.test(command));
    return start ? [start[1] + command.replace(start[0], "")] : [];
  });
}

/** Placeholders such as `<run>` and shell variables stand for a value, and for a number where one is needed. */
function argumentsOf(command: string): string[] {
  const filled = command.replace(/<(?:n|k|x|seconds|share)>|\$\w+/g, "1").replace(/<[^<>]*>|…/g, "x");
  const words = filled.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [];
  return words.map((word) => word.replace(/'([^']*)'|"([^"]*)"/g, "$1$2"));
}

function parsed(args: readonly string[]): string | undefined {
  const quiet = (command: Command): void => {
    command
      .exitOverride()
      .configureOutput({ writeErr() {}, writeOut() {} })
      .action(() => {});
    command.commands.forEach(quiet);
  };
  const program = buildProgram();
  program.configureOutput({ writeErr() {}, writeOut() {} });
  program.commands.forEach(quiet);
  try {
    program.parse(args, { from: "user" });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

test.each(DOCUMENTS)("%s: its commands parse", (document) => {
  const commands = commandsIn(document).filter(
    (command) => / ./.test(command) && !/^(?:…|judge check$|\S+ --\S+$)/.test(command),
  );
  const faults = commands.flatMap((command) => {
    const fault = parsed(argumentsOf(command));
    return fault === undefined ? [] : [`${command}: ${fault}`];
  });
  expect(faults).toEqual([]);
});

test("the commands are found, and a missing option is noticed", () => {
  expect(commandsIn("create/template/README.md")).toContain("show <run> 12/3/5");
  expect(parsed(argumentsOf("sft team --demonstrations <file>"))).toMatch(/required option '--to <folder>'/);
});
