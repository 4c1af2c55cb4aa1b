import { TransformationType } from 'class-transformer';
import type { TransformFnParams } from 'class-transformer';
import { defaultMetadataStorage as storage } from 'class-transformer/cjs/storage.js';
import { NULL_TO_INITIAL } from './dto-decorators.js';
import { UnsupportedByPlan } from './field-checks.js';
import type { DtoClass } from './field-checks.js';
import { passByReference } from './free-form-json.js';

const VALUES: readonly unknown[] = [String, Number, Boolean, Date, Buffer];
const CONTAINERS: readonly unknown[] = [Object, Array, Map, Set, Promise];

/** What class-transformer's decorators declare for one field. */
export interface DeclaredTransform {
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
  const odd =
    names.find((name) => name !== 'constructor' && !fields.has(name)) ??
    [...fields].find((name) => name in type.prototype);
  if (odd !== undefined) throw new UnsupportedByPlan(`${type.name}.${odd}: not a plain field`);
}

/** What class-transformer does with a field. @throws UnsupportedByPlan for a @Type that is not one class */
export function declaredTransform(type: DtoClass, name: string): DeclaredTransform {
  const transforms = storage
    .findTransformMetadatas(type, name, TransformationType.PLAIN_TO_CLASS)
    // Without groups in the options of the pipe, class-transformer skips what belongs to a group.
    .filter(({ options }) => (options?.groups ?? []).length === 0)
    .map(({ transformFn }) => transformFn);
  const declared = declaredType(type, name);
  const isOwn = transforms.every(
    (each) => NULL_TO_INITIAL.has(each) || (each === passByReference && declared.nested === undefined),
  );
  return {
    ...declared,
    transforms: isOwn ? [] : transforms,
    isByReference: isOwn && transforms.includes(passByReference),
    nullIsAbsent: isOwn && transforms.some((each) => NULL_TO_INITIAL.has(each)),
  };
}

function declaredType(type: DtoClass, name: string): Pick<DeclaredTransform, 'nested' | 'isMap'> {
  const metadata = storage.findTypeMetadata(type, name);
  if (metadata === undefined) return { nested: undefined, isMap: false };
  const { typeFunction, reflectedType, options } = metadata;
  const isDynamic = (typeFunction?.length ?? 0) > 0 || options?.discriminator !== undefined;
  const nested: unknown = isDynamic ? undefined : (typeFunction?.() ?? reflectedType);
  if (!isClass(nested) || reflectedType === Set || VALUES.includes(nested) || CONTAINERS.includes(nested)) {
    throw new UnsupportedByPlan(`${type.name}.${name}: @Type of something other than one class`);
  }
  return { nested, isMap: reflectedType === Map };
}

function isClass(value: unknown): value is DtoClass {
  return typeof value === 'function' && value.prototype instanceof Object;
}
