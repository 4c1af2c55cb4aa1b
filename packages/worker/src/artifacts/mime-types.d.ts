/** The part of mime-types that the worker uses; the package has no types of its own. */
declare module 'mime-types' {
  /** @returns false: the ending of the name says nothing */
  export function lookup(name: string): string | false;
}
