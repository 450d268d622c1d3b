/** @file The limit on the size of a model server's responses, of any status. */

/** Bytes after decompression. A completion of 200,000 tokens with a log-probability for each takes about 30 MB. */
const MAX_RESPONSE_BYTES = 64 * 2 ** 20;

export class ResponseTooLarge extends Error {
  constructor() {
    super(`a response of more than ${MAX_RESPONSE_BYTES} bytes`);
  }
}

/** A fetch whose response fails with `ResponseTooLarge` while its body is read. */
export const fetchWithinLimit: typeof fetch = async (url, init) => {
  const response = await fetch(url, init);
  if (!response.body) return response;
  let size = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, passed) {
      size += chunk.length;
      if (size > MAX_RESPONSE_BYTES) throw new ResponseTooLarge();
      passed.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(limit), response);
};
