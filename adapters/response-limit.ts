/**
 * @file The maximum size of a response that a library reads whole, whatever its status: from model servers, and from the Hugging Face Hub
 * when it describes a model or lists its files.
 */

/** Bytes after decompression. A completion of 200,000 tokens with a log-probability for each takes about 30 MB. */
const MAX_RESPONSE_BYTES = 64 * 2 ** 20;

export class ResponseTooLarge extends Error {
  constructor() {
    super(`a response of more than ${MAX_RESPONSE_BYTES} bytes`);
  }
}

/** The same fetch, but a response that is too large fails with `ResponseTooLarge` while its body is read. */
export const withinLimit =
  (send: typeof fetch): typeof fetch =>
  async (url, init) => {
    const response = await send(url, init);
    if (!response.body) return response;
    let size = 0;
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        size += chunk.length;
        if (size > MAX_RESPONSE_BYTES) throw new ResponseTooLarge();
        controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(limit), response);
  };
