/**
 * @file Reads of LevelDB in the thread that asks. dynalite reads twice for every call, the table's description and the item; both lie in
 * memory most of the time, and handing such a read to another thread, and waiting for it, takes longer than the read.
 */
import { ClassicLevel } from "classic-level";

let done = false;

/** Changes it for all databases of this process. */
export function readSynchronously(): void {
  if (done) return;
  done = true;
  const later = ClassicLevel.prototype.get;
  ClassicLevel.prototype.get = async function (this: ClassicLevel, key: string, options: object = {}) {
    // While it is being opened, reads wait in a queue of its own.
    return this.status === "open" ? this.getSync(key, options) : later.call(this, key, options);
  };
}
