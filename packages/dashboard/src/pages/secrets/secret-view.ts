import type { Schemas } from '../../api/use-api.js';

/** A secret as the API has it: everything but its value. */
export type Secret = Schemas['Secret'];
export type SecretKind = Secret['kind'];

export const KINDS = [
  ['opaque', 'Opaque: any text, for an environment variable'],
  ['map', 'Map: a JSON object of environment variables'],
  ['registry', 'Registry: a login for the pull of an image'],
] as const satisfies readonly (readonly [SecretKind, string])[];
