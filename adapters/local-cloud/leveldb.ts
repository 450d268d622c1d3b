/**
 * @file LevelDB as dynalite uses it.
 *
 * - Once the database is open, reads run on the calling thread: dynalite reads twice per call, the table's description and the item, and
 *   both are usually in memory, so handing the read to another thread takes longer than the read itself. A value that cannot be decoded is
 *   reported as corruption. Otherwise dynalite would delete the table's description and report the table as missing.
 * - Iterators have the `return` by which dynalite closes them. An open one pins the version of the database that it reads: all the
 *   version's files and memtables stay even after newer ones replace them.
 */
import { ClassicLevel } from "classic-level";

let isPatched = false;

/** Patches ClassicLevel: affects every database in this process. */
export function adaptLevelDb(): void {
  if (isPatched) return;
  isPatched = true;
  makeReadsSynchronous();
  makeIteratorsClosable();
}

function makeReadsSynchronous(): void {
  const getAsynchronously = ClassicLevel.prototype.get;
  ClassicLevel.prototype.get = async function (this: ClassicLevel, key: string, options: object = {}) {
    // Until the database is open, the library queues reads.
    if (this.status !== "open") return getAsynchronously.call(this, key, options);
    try {
      return this.getSync(key, options);
    } catch (error) {
      if ((error as { code?: string }).code !== "LEVEL_DECODE_ERROR") throw error;
      throw new Error("Corruption: a value is not JSON", { cause: error });
    }
  };
}

function makeIteratorsClosable(): void {
  const { keys, values } = ClassicLevel.prototype;
  ClassicLevel.prototype.keys = function (this: ClassicLevel, options: object = {}) {
    return closable(keys.call(this, options));
  };
  ClassicLevel.prototype.values = function (this: ClassicLevel, options: object = {}) {
    return closable(values.call(this, options));
  };
}

const closable = <T extends { close(): Promise<void> }>(iterator: T): T =>
  Object.assign(iterator, { return: () => iterator.close() });
