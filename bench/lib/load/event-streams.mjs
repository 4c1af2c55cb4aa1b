import { Agent, get } from 'node:http';

/**
 * Opens streams of a topic's feed, all at once.
 * @param onBytes told of what each brings, if given
 * @returns once all of them are open: how to close them
 */
export async function openStreams(baseUrl, key, topics, onBytes) {
  const agent = new Agent({ maxSockets: Infinity });
  const streams = await Promise.all(
    topics.map(
      (topic, n) =>
        new Promise((resolve, reject) => {
          const url = `${baseUrl}/feed/stream?topic=${encodeURIComponent(topic)}`;
          const request = get(url, { agent, headers: { 'X-API-Key': key } }, (response) => {
            if (response.statusCode !== 200) {
              reject(new Error(`a stream was answered ${response.statusCode}`));
              return;
            }
            if (onBytes === undefined) response.resume();
            else response.on('data', (bytes) => onBytes(n, bytes));
            response.on('error', () => undefined);
            resolve(request);
          });
          request.on('error', reject);
        }),
    ),
  );
  return {
    close: () => {
      for (const request of streams) request.destroy();
      agent.destroy();
    },
  };
}
