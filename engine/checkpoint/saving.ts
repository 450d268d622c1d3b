/** @file Saves a trainer's state: file by file, with one file in memory at a time, or all files at once. */
import type { SavedFile, Trainer } from "../../core/ports.ts";

/** @param savedFile the file at an index; undefined after the last. */
export function saveMethods(
  savedFile: (index: number) => Promise<SavedFile | undefined>,
): Required<Pick<Trainer, "save" | "saveFiles">> {
  async function* saveFiles() {
    for (let index = 0; ; index++) {
      const file = await savedFile(index);
      if (!file) return;
      yield file;
    }
  }
  return {
    saveFiles,
    async save() {
      const files = new Map<string, Uint8Array>();
      for await (const [name, bytes] of saveFiles()) files.set(name, bytes);
      return files;
    },
  };
}
