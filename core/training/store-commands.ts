/**
 * @file What the reducers of this folder return: effects as data. A function executes them in order, then reads the state again. Every
 * command is safe to repeat. If a tick stops between two commands, the next tick completes its work.
 */
import type { TableKey } from "../contracts/keys.ts";
import type { TableChange, TableItem } from "../ports.ts";

export type StoreCommand =
  /** Put-if-absent of records that do not depend on each other. */
  | { readonly kind: "insert"; readonly items: readonly Insertion[] }
  /** Put-if-absent of one record, and of the rest only if this caller inserted it. */
  | { readonly kind: "insert-first"; readonly first: Insertion; readonly rest: readonly Insertion[] }
  /** One conditional write. `then` is executed only if this caller made the change. */
  | { readonly kind: "update"; readonly change: TableChange; readonly then?: readonly StoreCommand[] }
  /** Puts an object at a key that is written once. The record is stored as canonical JSON. */
  | { readonly kind: "commit"; readonly key: string; readonly record: unknown }
  /** Requests the score of the outcome at this key, whose event may be lost. */
  | { readonly kind: "score"; readonly key: string }
  /**
   * Queues the evaluations of the team manifest at this key, without waiting for its event. `isLast`: the run ends with this team, which
   * the event's receiver knows only if the run ends by its number of steps.
   */
  | { readonly kind: "enqueue"; readonly key: string; readonly isLast: boolean }
  /** Deletes objects. */
  | { readonly kind: "delete"; readonly keys: readonly string[] }
  /** Deletes a record. */
  | { readonly kind: "delete-item"; readonly key: TableKey }
  /** Commands that do not depend on each other. */
  | { readonly kind: "parallel"; readonly commands: readonly StoreCommand[] };

export interface Insertion {
  readonly key: TableKey;
  readonly item: TableItem;
}

export const insert = (...items: readonly Insertion[]): StoreCommand => ({ kind: "insert", items });
export const parallel = (commands: readonly StoreCommand[]): StoreCommand[] =>
  commands.length > 1 ? [{ kind: "parallel", commands }] : [...commands];
export const update = (change: TableChange, then: readonly StoreCommand[] = []): StoreCommand => ({
  kind: "update",
  change,
  ...(then.length > 0 && { then }),
});
