/** A text that no other has, for an Idempotency-Key. Unlike randomUUID it also works over plain http. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join('-');
}
