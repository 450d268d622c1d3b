/**
 * @file What checks find: errors (which keep a run from starting), warnings, and notes on what was decided for the user. Each is one
 * line: where, what is wrong or was decided, what to do.
 */
import colors from "picocolors";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { describe } from "../terminal/fail.ts";

export interface Finding {
  readonly severity: "error" | "warning" | "note";
  readonly message: string;
}

/** A list that checks add to. Duplicate findings are listed once. */
export class Findings {
  readonly #notes = new Set<string>();
  readonly #warnings = new Set<string>();
  /** By message. */
  readonly #errors = new Map<string, MgrpoError>();

  get all(): Finding[] {
    return [
      ...[...this.#errors.keys()].map((message): Finding => ({ severity: "error", message })),
      ...[...this.#warnings].map((message): Finding => ({ severity: "warning", message })),
      ...[...this.#notes].map((message): Finding => ({ severity: "note", message })),
    ];
  }

  note(message: string): void {
    this.#notes.add(message);
  }

  warn(message: string): void {
    this.#warnings.add(message);
  }

  refuse(error: MgrpoError): void {
    this.#errors.set(describe(error), error);
  }

  /** The result of a check; undefined if it throws an MgrpoError, which is added to the list. Rethrows other errors. */
  async attempt<T>(check: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await check();
    } catch (error) {
      if (!isMgrpoError(error)) throw error;
      this.refuse(error);
      return undefined;
    }
  }

  /** Prints the notes and warnings, then throws the errors, if any, as one. */
  reportAndThrow(): void {
    for (const message of this.#notes) console.error(`${colors.cyan("note:")} ${message}`);
    for (const message of this.#warnings) console.error(`${colors.yellow("warning:")} ${message}`);
    this.throwErrors();
  }

  /** Throws the errors, if any, as one. */
  throwErrors(): void {
    const [first, ...others] = this.#errors.values();
    if (!first) return;
    if (others.length === 0) throw first;
    throw new MgrpoError(first.code, [...this.#errors.keys()].join("\n"));
  }
}
