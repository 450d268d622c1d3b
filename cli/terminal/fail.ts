/** @file How a command fails: a message on standard error, and exit code 1. Also parses the values of options: numbers, ports and paths. */
import { CommanderError, InvalidArgumentError } from "commander";
import colors from "picocolors";
import { boundReason } from "../../core/contracts/bounds.ts";
import { isMgrpoError, type MgrpoError } from "../../core/errors.ts";
import { lacksRuntime, NO_RUNTIME } from "../../engine/compiled/missing-runtime.ts";
import { stripControlCharacters } from "./control-characters.ts";
import { fileFault } from "./file-fault.ts";
import { MGRPO } from "./name.ts";
import { didYouMean } from "./nearest.ts";

/** MGRPO_DEBUG=1 adds the stack and the causes. */
export function fail(error: unknown): void {
  if (error instanceof CommanderError) {
    // The parser has printed it.
    process.exitCode = error.exitCode;
    return;
  }
  const known = fileFault(error);
  const code = isMgrpoError(known) ? colors.dim(` [${known.code}]`) : "";
  process.stderr.write(`${colors.red("mgrpo:")} ${describe(error)}${code}\n`);
  if (process.env["MGRPO_DEBUG"] === "1") console.error(error);
  process.exitCode = 1;
}

/** The message of a known error or a file error, or how to install a missing runtime. Anything else is reported as unexpected: a bug in this program. */
export function describe(error: unknown): string {
  return withUserCommand(messageOf(fileFault(error)));
}

/** Messages of lower layers write hints as `mgrpo <command>` in backticks. This replaces `mgrpo` with the command that starts the program for this user. */
export function withUserCommand(message: string): string {
  return message.replaceAll("`mgrpo ", `\`${MGRPO} `);
}

function messageOf(error: unknown): string {
  if (isMgrpoError(error))
    return `${error.message.split("\n").map(stripControlCharacters).join("\n")}${suggestionOf(error)}${causeOf(error)}`;
  if (lacksRuntime(error)) return NO_RUNTIME;
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return `unexpected: ${stripControlCharacters(text)} (MGRPO_DEBUG=1 shows where)`;
}

function suggestionOf({ unknownNames = [] }: MgrpoError): string {
  return unknownNames.map(({ unknown, known }) => didYouMean(unknown, known)).find((hint) => hint !== "") ?? "";
}

/**
 * The first line of a foreign cause, in parentheses. Empty if the message contains the line, whole or cut by `boundReason`, as adapters cut it.
 * Servers may end a line with a CR.
 */
function causeOf({ cause, message }: Error): string {
  const [line = ""] = cause instanceof Error && !isMgrpoError(cause) ? cause.message.split(/[\r\n]/, 1) : [];
  const reason = boundReason(line);
  return message.includes(line) || message.includes(reason) ? "" : ` (${stripControlCharacters(reason)})`;
}

/** Parses an option's whole number. */
export function integer(option: string): (text: string) => number {
  return (text) => {
    if (!/^\d+$/.test(text)) throw new InvalidArgumentError(`${option} takes a whole number.`);
    return Number(text);
  };
}

/** Parses an option's path. A shell passes an unset variable in quotes as an empty string, which names the current folder, or no file. */
export function path(option: string): (text: string) => string {
  return (text) => {
    if (text === "") throw new InvalidArgumentError(`${option} takes a path.`);
    return text;
  };
}

const HIGHEST_PORT = 65_535;

/** Parses an option's port. */
export function port(option: string): (text: string) => number {
  return (text) => {
    const value = integer(option)(text);
    if (value > HIGHEST_PORT) throw new InvalidArgumentError(`${option} takes a port, at most ${HIGHEST_PORT}.`);
    return value;
  };
}

/** Parses an option's whole number above 0. */
export function positiveInteger(option: string): (text: string) => number {
  return (text) => {
    if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError(`${option} takes a whole number above 0.`);
    return Number(text);
  };
}

/** Parses an option's finite number. Refuses one that `accepts` does not accept. */
function numberWhere(option: string, what: string, accepts: (value: number) => boolean): (text: string) => number {
  return (text) => {
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (!Number.isFinite(value) || !accepts(value)) throw new InvalidArgumentError(`${option} takes ${what}.`);
    return value;
  };
}

export const number = (option: string) => numberWhere(option, "a number", () => true);
export const positive = (option: string) => numberWhere(option, "a number above 0", (value) => value > 0);
export const nonNegative = (option: string) => numberWhere(option, "a number of 0 or more", (value) => value >= 0);

/** Parses an option's share: a number above 0, at most 1. */
export const share = (option: string) =>
  numberWhere(option, "a number above 0 and at most 1", (value) => value > 0 && value <= 1);
