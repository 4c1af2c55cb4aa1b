/** A JSON object that was entered, or what is wrong with it. */
export type Typed =
  | { readonly value: Readonly<Record<string, unknown>>; readonly problem?: undefined }
  | { readonly value?: undefined; readonly problem: string };

/** Parses a typed JSON object. */
export function readObject(text: string): Typed {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'Enter a JSON object, such as {"a": 1}.' };
  }
  return { value: Object.fromEntries(Object.entries(value)) };
}

/** A JSON object as it is offered for editing. */
export function writeObject(value: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(value, null, 2);
}

/** Parses a typed whole number; undefined when it is none. */
export function readInteger(text: string): number | undefined {
  return /^-?\d{1,10}$/.test(text.trim()) ? Number(text) : undefined;
}
