import { TransformationType } from 'class-transformer';
import type { TransformFnParams } from 'class-transformer';
import { defaultMetadataStorage as storage } from 'class-transformer/cjs/storage.js';
import { NULL_TO_INITIAL } from './dto-decorators.js';
import { UnsupportedByPlan } from './field-checks.js';
import type { DtoClass } from './field-checks.js';
import { passByReference } from './free-form-json.js';

const PRIMITIVES = [String, Number, Boolean] as const;
const NOT_NESTED: readonly unknown[] = [Date, Buffer, Object, Array, Map, Set, Promise];

/** What class-transformer's decorators declare for one field. */
export interface DeclaredTransform {
  /** The type to convert to. */
  readonly primitive: (typeof PRIMITIVES)[number] | undefined;
  /** The class to build. */
  readonly nested: DtoClass | undefined;
  /** Whether the field is a Map of the class. */
  readonly isMap: boolean;
  /** The functions of @Transform, in the order in which they apply, unless the next two properties say the same. */
  readonly transforms: readonly ((params: TransformFnParams) => unknown)[];
  /** Whether the field takes the value itself instead of a copy. */
  readonly isByReference: boolean;
  /** Whether null counts as absent. */
  readonly nullIsAbsent: boolean;
}

/** @throws UnsupportedByPlan when the class has more than decorated fields */
export function requirePlainClass(type: DtoClass, fields: ReadonlySet<string>): void {
  if (fields.size === 0) throw new UnsupportedByPlan(`${type.name} declares no field`);
  const decorated = [...storage.getExposedMetadatas(type), ...storage.getExcludedMetadatas(type)];
  if (decorated.length > 0 || storage.getStrategy(type) !== 'none') {
    throw new UnsupportedByPlan(`${type.name}: @Expose or @Exclude`);
  }
  const names = Object.keys(new type());
  for (let chain: unknown = type.prototype; chain instanceof Object; chain = Object.getPrototypeOf(chain)) {
    if (chain !== Object.prototype) names.push(...Object.getOwnPropertyNames(chain));
  }
  const other = names.find((name) => name !== 'constructor' && !fields.has(name));
  const shadowing = [...fields].find((name) => name in type.prototype);
  if (other ?? shadowing)
    throw new UnsupportedByPlan(`${type.name}.${other ?? shadowing}: not a plain field`);
}

/** What class-transformer does with a field. @throws UnsupportedByPlan when it cannot be decided beforehand */
export function declaredTransform(type: DtoClass, name: string): DeclaredTransform {
  const transforms = storage
    .findTransformMetadatas(type, name, TransformationType.PLAIN_TO_CLASS)
    // Without groups in the options of the pipe, class-transformer skips what belongs to a group.
    .filter(({ options }) => (options?.groups ?? []).length === 0)
    .map(({ transformFn }) => transformFn);
  const declared = declaredType(type, name);
  const isTyped = declared.nested !== undefined || declared.primitive !== undefined;
  const isOwn = transforms.every(
    (each) => NULL_TO_INITIAL.has(each) || (each === passByReference && !isTyped),
  );
  return {
    ...declared,
    transforms: isOwn ? [] : transforms,
    isByReference: isOwn && transforms.includes(passByReference),
    nullIsAbsent: isOwn && transforms.some((each) => NULL_TO_INITIAL.has(each)),
  };
}

function declaredType(
  type: DtoClass,
  name: string,
): Pick<DeclaredTransform, 'primitive' | 'nested' | 'isMap'> {
  const metadata = storage.findTypeMetadata(type, name);
  if (metadata === undefined) return { primitive: undefined, nested: undefined, isMap: false };
  const { typeFunction, reflectedType, options } = metadata;
  const isMap = reflectedType === Map;
  const isDynamic = (typeFunction?.length ?? 0) > 0 || options?.discriminator !== undefined;
  const target: unknown = isDynamic ? undefined : (typeFunction?.() ?? reflectedType);
  const primitive = PRIMITIVES.find((each) => each === target);
  if (primitive !== undefined && !isMap) return { primitive, nested: undefined, isMap };
  if (isClass(target) && primitive === undefined && reflectedType !== Set && !NOT_NESTED.includes(target)) {
    return { primitive: undefined, nested: target, isMap };
  }
  throw new UnsupportedByPlan(`${type.name}.${name}: @Type of something other than a primitive or one class`);
}

function isClass(value: unknown): value is DtoClass {
  return typeof value === 'function' && value.prototype instanceof Object;
}
