/**
 * A `fetch` whose answers fail while they are read when they are larger than the limit, decompressed.
 * @param maxBytes SERVICE_WORKER_MAX_ANSWER_BYTES
 */
export function boundedFetch(maxBytes: number): (request: Request) => Promise<Response> {
  return async (request) => {
    const response = await fetch(request);
    const { body, status, statusText, headers } = response;
    if (body === null) return response;
    return new Response(body.pipeThrough(limit(maxBytes)), { status, statusText, headers });
  };
}

function limit(maxBytes: number): TransformStream<Uint8Array, Uint8Array> {
  let length = 0;
  return new TransformStream({
    transform(bytes, controller) {
      length += bytes.length;
      if (length > maxBytes)
        throw new Error(`the answer is larger than SERVICE_WORKER_MAX_ANSWER_BYTES (${maxBytes})`);
      controller.enqueue(bytes);
    },
  });
}
