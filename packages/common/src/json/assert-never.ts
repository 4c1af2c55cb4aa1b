/**
 * Makes a switch exhaustive for the compiler.
 * @throws Error when a value outside the type gets here after all
 */
export function assertNever(value: never): never {
  throw new Error(`unexpected value: ${JSON.stringify(value)}`);
}
