/** @file Reads the body of a message whose sender may send any number of bytes. */

/**
 * All bytes of a body; undefined if there are more than `maxBytes`. Reads no further then: leaving the loop cancels a stream, which ends the
 * request. The body of a fetch is already decompressed, so a small message that inflates is bounded too.
 */
export async function readAtMost(
  body: AsyncIterable<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
