import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';

/** The query of a signed URL, of a bucket or of the service, in a string of a JSON text. */
const SIGNED = /"https?:\/\/[^"\\?]+\?([^"\\]*\b(?:X-Amz-Signature|signature)=[^"\\]*)"/g;

/** The queries of the signed URLs in objects, each once. Who has one needs no key. */
export function signedQueries(...objects: readonly JsonObject[]): string[] {
  const found = objects.flatMap((one) => [...jsonText(one).matchAll(SIGNED)].map(([, query = '']) => query));
  return [...new Set(found)];
}
