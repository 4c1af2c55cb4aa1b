import { TransformationType } from 'class-transformer';
import { parsedOf } from '@longshore/common/json/json-text';
import { isJsonObject } from '@longshore/common/json/json-value';
import { InvalidRequest } from '../../errors/domain-error.js';
import { allowsUnknownFields, mostEntriesOf } from './dto-decorators.js';
import {
  declaredFields,
  UnsupportedByPlan,
  type DeclaredField,
  type DtoClass,
  declaredTransform,
  requirePlainClass,
  type DeclaredTransform,
} from './field-checks.js';
import { copyJson, roundedNumbers } from './free-form-json.js';
import { fieldPath, itemPath, keyPath, outOfRange, Problems, VALIDATION_FAILED } from './problems.js';

type Fields = Record<string, unknown>;

export interface ReadOptions {
  /** The message about a value that is not an object. */
  readonly notAnObject: string;
  /** The path of the value within the request. */
  readonly path: string;
  /** The message about a key that the class does not declare; `known` are those that it declares. */
  readonly describeUnknown: (path: string, key: string, known: readonly string[]) => string;
}

interface FieldPlan extends DeclaredField, DeclaredTransform {
  readonly name: string;
  /** The plan of the nested class. */
  readonly plan: DtoPlan | undefined;
  /** Entries that a list or map of the nested class may have; a longer one is not converted, and fails its check. */
  readonly mostEntries: number;
}

/** The state of reading one value. */
interface Reading {
  readonly problems: Problems;
  readonly describeUnknown: ReadOptions['describeUnknown'];
  readonly ignoresUnknown: boolean;
  /** The unknown keys of the objects that have some. */
  readonly unknown: Map<object, readonly string[]>;
}

const NO_OPTIONS = {};

const plans = new Map<DtoClass, DtoPlan | UnsupportedByPlan>();

/**
 * Builds and validates the objects of one DTO class as Nest's ValidationPipe does, but synchronously and from metadata
 * that is read once. Two differences: keys named like members of Object (`__proto__`, `constructor`) are unknown fields,
 * and entries of maps, like any other, where ValidationPipe ignores them; and a @Transform applies to its field only, where
 * class-transformer also applies it to the entries of a map of the class that have the field's name as key.
 */
export class DtoPlan {
  readonly #fields = new Map<string, FieldPlan>();
  readonly #ignoresUnknown: boolean;

  private constructor(private readonly type: DtoClass) {
    this.#ignoresUnknown = allowsUnknownFields(type);
    const declared = declaredFields(type);
    requirePlainClass(type, new Set(declared.keys()));
    for (const [name, field] of declared) {
      const transform = declaredTransform(type, name);
      if (field.isNested !== (transform.nested !== undefined)) {
        throw new UnsupportedByPlan(`${type.name}.${name}: @ValidateNested or @Type without the other`);
      }
      const plan = transform.nested && DtoPlan.of(transform.nested);
      this.#fields.set(name, { name, ...field, ...transform, plan, mostEntries: mostEntriesOf(type, name) });
    }
  }

  /**
   * The plan of a class, compiled at its first use.
   * @throws UnsupportedByPlan when only ValidationPipe can read the class
   */
  static of(type: DtoClass): DtoPlan {
    const known = plans.get(type);
    if (known instanceof UnsupportedByPlan) throw known;
    if (known !== undefined) return known;
    // A class that refers to itself finds this while it is compiled.
    plans.set(type, new UnsupportedByPlan(`${type.name} refers to itself`));
    try {
      const plan = new DtoPlan(type);
      plans.set(type, plan);
      return plan;
    } catch (error) {
      if (error instanceof UnsupportedByPlan) plans.set(type, error);
      else plans.delete(type);
      throw error;
    }
  }

  /** Remembers that only ValidationPipe can read the class. */
  static giveUp(type: DtoClass, reason: UnsupportedByPlan): void {
    plans.set(type, reason);
  }

  /**
   * Builds an object of the class from a JSON object or a parsed query.
   * @throws InvalidRequest with one line per field
   * @throws UnsupportedByPlan when a constraint turns out to be asynchronous
   */
  read(value: unknown, { notAnObject, path, describeUnknown }: ReadOptions): object {
    if (!isJsonObject(value)) throw new InvalidRequest(VALIDATION_FAILED, [notAnObject]);
    const reading: Reading = {
      problems: new Problems(),
      describeUnknown,
      ignoresUnknown: this.#ignoresUnknown,
      unknown: new Map(),
    };
    const result = this.#build(value, reading);
    this.#validate(result, path, reading);
    reading.problems.throwIfAny();
    return result;
  }

  #build(source: Fields, reading: Reading): Fields {
    const target: object = new this.type();
    if (!isJsonObject(target)) throw new TypeError(`${this.type.name} is not a class of objects`);
    const fields: Fields = target;
    const unknown: string[] = [];
    for (const key of Object.keys(parsedOf(source))) {
      const field = this.#fields.get(key);
      if (field !== undefined) {
        const given = source[key];
        if (given === null && field.nullIsAbsent) continue;
        const value = field.isByReference ? given : convertField(field, given, source, reading);
        if (value !== undefined || fields[key] !== undefined) fields[key] = value;
      } else if (!reading.ignoresUnknown) unknown.push(key);
    }
    if (unknown.length > 0) reading.unknown.set(fields, unknown);
    return fields;
  }

  /** Converts a value, or each value of a list or a map, to an object of the class. */
  convert(value: unknown, isMap: boolean, reading: Reading): unknown {
    if (Array.isArray(value)) return value.map((item) => this.convert(item, false, reading));
    if (!isJsonObject(value)) return value;
    if (!isMap) return this.#build(value, reading);
    return new Map(Object.entries(value).map(([key, item]) => [key, this.convert(item, false, reading)]));
  }

  #validate(target: Fields, path: string, reading: Reading): void {
    for (const field of this.#fields.values()) {
      const value = target[field.name];
      const isMissing = value === undefined || value === null;
      if (isMissing && field.isOptional) continue;
      const failed = field.checks.find((check) => !check.holds(value, target));
      if (failed !== undefined) {
        const place = fieldPath(path, field.name);
        reading.problems.add(isMissing ? `${place} is required` : failed.describe(value, target, place));
      } else if (field.plan !== undefined) {
        if (value !== undefined) field.plan.validateNested(value, fieldPath(path, field.name), reading);
      } else if (typeof value === 'number' || (typeof value === 'object' && !field.isByReference)) {
        if (field.transforms.length === 0) target[field.name] = copyJson(value);
        const places = roundedNumbers(target[field.name], fieldPath(path, field.name));
        for (const place of places) reading.problems.add(outOfRange(place));
      }
    }
    const { problems } = reading;
    const unknown = reading.unknown.get(target) ?? [];
    const known = unknown.length === 0 ? [] : [...this.#fields.keys()];
    for (const key of unknown) {
      if (problems.isFull) problems.drop();
      else problems.add(reading.describeUnknown(path, key, known));
    }
  }

  /** Validates an object of the class, or each of a list or a map of them. */
  validateNested(value: unknown, path: string, reading: Reading): void {
    if (Array.isArray(value)) {
      value.forEach((item, index) => this.validateNested(item, itemPath(path, index), reading));
    } else if (value instanceof Map) {
      for (const [key, item] of value) this.validateNested(item, keyPath(path, String(key)), reading);
    } else if (!isJsonObject(value)) {
      reading.problems.add(`${path} must be an object`);
    } else if (Object.getPrototypeOf(value) === this.type.prototype) {
      this.#validate(value, path, reading);
    } else {
      throw new UnsupportedByPlan(`${this.type.name}: @Transform makes objects of another class`);
    }
  }
}

/**
 * The value of a field, as @Type and then @Transform make it. JSON that neither of them reads is copied only after the checks of the
 * field: what they refuse may be large.
 */
function convertField(field: FieldPlan, given: unknown, source: Fields, reading: Reading): unknown {
  const { name: key, plan, isMap, transforms, mostEntries } = field;
  const params = { key, obj: source, type: TransformationType.PLAIN_TO_CLASS, options: NO_OPTIONS };
  if (plan === undefined) {
    if (transforms.length === 0) return given;
    let read = once(() => copyJson(given));
    for (const transform of transforms) {
      const before = read;
      const value = transform({
        ...params,
        get value() {
          return before();
        },
      });
      read = () => value;
    }
    return read();
  }
  let value = isLonger(given, mostEntries) ? given : plan.convert(given, isMap, reading);
  for (const transform of transforms) value = transform({ ...params, value });
  return value;
}

function isLonger(value: unknown, max: number): boolean {
  if (max === Infinity || typeof value !== 'object' || value === null) return false;
  return (Array.isArray(value) ? value.length : Object.keys(parsedOf(value)).length) > max;
}

/** A function that computes its value at the first call. */
function once(compute: () => unknown): () => unknown {
  let computed: { readonly value: unknown } | undefined;
  return () => (computed ??= { value: compute() }).value;
}
