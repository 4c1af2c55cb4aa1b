/** A worker did not keep a rule of the protocol; the message says which, in words for its author. */
export class RuleBroken extends Error {}

/** @throws RuleBroken with the message unless the condition holds */
export function demand(condition: boolean, message: string): asserts condition {
  if (!condition) throw new RuleBroken(message);
}
