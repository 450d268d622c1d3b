/** @file The generated files of docs/: file name -> content, a pure function of the program's own definitions. */
import { buildProgram } from "../../cli/program.ts";
import { cliReference } from "./cli.ts";
import { configurationReference } from "./configuration.ts";
import { processesPicture } from "./processes.ts";

export function generatedDocs(): ReadonlyMap<string, string> {
  return new Map([
    ["cli.md", cliReference(buildProgram())],
    ["configuration.md", configurationReference()],
    ["processes.svg", processesPicture()],
  ]);
}
