import createClient, { type Client, type ClientOptions } from 'openapi-fetch';
import type { components, paths } from './schema.js';

/** The shapes of the API, by their names in the OpenAPI document. */
export type Schemas = components['schemas'];

/** A client of the service whose paths, parameters, bodies and answers are typed by the OpenAPI document. */
export type LongshoreClient = Client<paths>;

/** Where the service is and who calls it. */
export interface LongshoreClientOptions extends Pick<ClientOptions, 'fetch'> {
  /** For example `http://127.0.0.1:5555`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Prints bodies of requests and parses those of answers; JSON unless given, which rounds large numbers. */
  readonly json?: JsonCodec;
}

/** How values become JSON texts, and the reverse. */
export interface JsonCodec {
  readonly stringify: (value: unknown) => string;
  /** @throws SyntaxError */
  readonly parse: (text: string) => unknown;
}

/** Makes a client. Its calls never throw for an error answer: they give `{ data, error, response }`. */
export function createLongshoreClient({
  baseUrl,
  apiKey,
  fetch,
  json,
}: LongshoreClientOptions): LongshoreClient {
  const client = createClient<paths>({
    baseUrl,
    headers: { 'X-API-Key': apiKey },
    ...(fetch === undefined ? {} : { fetch }),
    ...(json === undefined ? {} : { bodySerializer: json.stringify }),
  });
  if (json !== undefined) {
    client.use({ onResponse: ({ response }) => (response.ok ? parsedBy(json, response) : response) });
  }
  return client;
}

/** The response with a body that `json` parses. */
function parsedBy({ parse }: JsonCodec, response: Response): Response {
  const { body, status, statusText } = response;
  if (body === null) return response;
  const headers = new Headers(response.headers);
  // openapi-fetch calls `json()` only for a response with this header.
  if (!headers.has('Content-Length')) headers.set('Content-Length', 'unknown');
  const parsed = new Response(body, { status, statusText, headers });
  return Object.assign(parsed, { json: async () => parse(await parsed.text()) });
}
