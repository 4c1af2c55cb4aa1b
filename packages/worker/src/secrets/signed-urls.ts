/** The query of a signed URL, of a bucket or of the service, in a string of a JSON text. */
const SIGNED = /"https?:\/\/[^"\\]+\?([^"\\]*\b(?:X-Amz-Signature|signature)=[^"\\]*)"/g;

/** The queries of the signed URLs in JSON texts, each once. Who has one needs no key. */
export function signedQueries(...texts: readonly string[]): string[] {
  const found = texts.flatMap((text) => [...text.matchAll(SIGNED)].map(([, query = '']) => query));
  return [...new Set(found)];
}
