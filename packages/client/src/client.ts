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
}

/** Makes a client. Its calls never throw for an error answer: they give `{ data, error, response }`. */
export function createLongshoreClient({ baseUrl, apiKey, fetch }: LongshoreClientOptions): LongshoreClient {
  return createClient<paths>({
    baseUrl,
    headers: { 'X-API-Key': apiKey },
    ...(fetch === undefined ? {} : { fetch }),
  });
}
