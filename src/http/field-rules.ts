/** Marks a query value that its reader does not take. */
export const REFUSED: unique symbol = Symbol('refused');

export type DtoClass = new () => object;

/** Where a bounded list or map stops. */
export interface SizeLimit {
  /** Most entries taken. */
  readonly max?: number;
}

/** How a field is built from JSON or from a query string, beyond class-validator's checks. */
export type FieldRule =
  | { readonly kind: 'nested'; readonly type: () => DtoClass }
  | { readonly kind: 'nested-list'; readonly type: () => DtoClass; readonly max: number }
  | { readonly kind: 'nested-map'; readonly type: () => DtoClass; readonly max: number }
  | { readonly kind: 'json-object' }
  | {
      readonly kind: 'query';
      /** Gives the value, or REFUSED. */
      readonly read: (text: string) => unknown;
      /** What the parameter must be, worded to follow its name. */
      readonly message: string;
    };

const rules = new Map<object, Map<string, FieldRule>>();
const lenient = new Set<object>();

/** Remembers a rule for one field of the class that `prototype` belongs to; a later one replaces it. */
export function addFieldRule(prototype: object, name: string | symbol, rule: FieldRule): void {
  const own = rules.get(prototype) ?? new Map<string, FieldRule>();
  own.set(String(name), rule);
  rules.set(prototype, own);
}

/** Every rule of a class, inherited ones included; the subclass wins. */
export function fieldRulesOf(type: DtoClass): ReadonlyMap<string, FieldRule> {
  const chain: object[] = [];
  let prototype: unknown = type.prototype;
  while (typeof prototype === 'object' && prototype !== null) {
    chain.unshift(prototype);
    prototype = Object.getPrototypeOf(prototype);
  }
  return new Map(chain.flatMap((link) => [...(rules.get(link) ?? [])]));
}

/** Lets a class ignore fields it does not declare. */
export function markLenient(type: object): void {
  lenient.add(type);
}

/** Whether the class ignores fields it does not declare. */
export function isLenient(type: object): boolean {
  return lenient.has(type);
}
