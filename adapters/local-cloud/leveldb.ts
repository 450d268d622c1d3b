/**
 * @file LevelDB reads for dynalite. Once the database is open, they run on the calling thread: dynalite reads twice per call, the table's
 * description and the item, and both are usually in memory, so handing the read to another thread takes longer than the read itself. A value
 * that cannot be decoded is reported as corruption. Otherwise dynalite would delete the table's description and report the table as missing.
 */
import { ClassicLevel } from "classic-level";

let isPatched = false;

/** Patches ClassicLevel: affects every database in this process. */
export function makeReadsSynchronous(): void {
  if (isPatched) return;
  isPatched = true;
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
