/**
 * @file What the reducers of this folder answer with: effects as data. A function executes them in order, then looks again.
 * Every command is safe to repeat, and a tick that stops between two of them is finished by the next one.
 */
import type { TableKey } from "../contracts/keys.ts";
import type { TableChange, TableItem } from "../ports.ts";

export type Command =
  /** Put-if-absent of records that do not depend on each other. */
  | { readonly kind: "insert"; readonly items: readonly Insertion[] }
  /** One conditional write; `then` follows only if this caller made the change. */
  | { readonly kind: "change"; readonly change: TableChange; readonly then?: readonly Command[] }
  /** One object at a key that is written once; the record is stored as canonical JSON. */
  | { readonly kind: "commit"; readonly key: string; readonly record: unknown }
  /** Scores the outcome at this key, without waiting for its event. */
  | { readonly kind: "score"; readonly key: string }
  /**
   * Queues the evaluations of the team manifest at this key, without waiting for its event, which knows only by `steps` which is the last.
   */
  | { readonly kind: "enqueue"; readonly key: string; readonly last: boolean }
  | { readonly kind: "delete"; readonly keys: readonly string[] }
  /** Commands that do not depend on each other. */
  | { readonly kind: "together"; readonly commands: readonly Command[] };

export interface Insertion {
  readonly key: TableKey;
  readonly item: TableItem;
}

export const insert = (...items: readonly Insertion[]): Command => ({ kind: "insert", items });
export const together = (commands: readonly Command[]): Command[] =>
  commands.length > 1 ? [{ kind: "together", commands }] : [...commands];
export const change = (write: TableChange, then: readonly Command[] = []): Command => ({
  kind: "change",
  change: write,
  ...(then.length > 0 && { then }),
});
