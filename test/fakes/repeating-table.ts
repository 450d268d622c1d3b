/** @file Tables whose responses are lost, so that writes are sent again. */
import type { Table } from "../../core/ports.ts";

/** Every write is sent twice in a row: the first response is lost. */
export function repeatingTable(table: Table): Table {
  return {
    ...table,
    async insert(key, item) {
      await table.insert(key, item);
      return table.insert(key, item);
    },
    async update(change) {
      await table.update(change);
      return table.update(change);
    },
    async delete(key) {
      await table.delete(key);
      await table.delete(key);
    },
  };
}

/** Like `repeatingTable`. Before each update, all earlier ones also arrive once more, as if from slow connections. */
export function replayingTable(table: Table): Table {
  const sent: Parameters<Table["update"]>[0][] = [];
  const repeating = repeatingTable(table);
  return {
    ...repeating,
    async update(change) {
      for (const earlier of sent) await table.update(earlier);
      sent.push(change);
      return repeating.update(change);
    },
  };
}
