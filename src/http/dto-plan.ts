import { declaredFields } from './field-checks.js';
import type { DeclaredField } from './field-checks.js';
import { fieldRulesOf, isLenient, REFUSED } from './field-rules.js';
import type { DtoClass, FieldRule } from './field-rules.js';
import { assertNever } from '../json/assert-never.js';
import { fieldPath, itemPath, keyPath } from './problems.js';
import type { Problems } from './problems.js';

type Bag = Record<string, unknown>;

interface FieldPlan {
  readonly name: string;
  readonly declared: DeclaredField;
  /** Builds the value from JSON; undefined stands for "taken as it is". */
  readonly build?: (value: unknown, path: string, run: Run) => unknown;
  readonly mayBeAbsent: boolean;
}

/** What stays the same during the reading of one request. */
interface Run {
  readonly problems: Problems;
  readonly ignoreUnknown: boolean;
  readonly describeUnknown: (path: string, key: string) => string;
}

/**
 * How objects of one DTO class are built and checked: worked out from the decorators once, then run
 * without reflection. Nothing but declared fields gets into the object, null counts as absent, and keys
 * such as `__proto__` are plain names.
 */
export class DtoPlan {
  private static readonly plans = new Map<DtoClass, DtoPlan>();
  private readonly fields: readonly FieldPlan[];
  private readonly known: ReadonlySet<string>;
  private readonly lenient: boolean;

  private constructor(private readonly type: DtoClass) {
    const rules = fieldRulesOf(type);
    const declared = declaredFields(type);
    const names = [...new Set([...declared.keys(), ...rules.keys()])];
    this.fields = names.map((name) => planField(name, declared.get(name), rules.get(name)));
    this.known = new Set(names);
    this.lenient = isLenient(type);
  }

  /** The plan of a class, made at its first use. */
  static of(type: DtoClass): DtoPlan {
    const known = this.plans.get(type);
    if (known !== undefined) return known;
    const plan = new DtoPlan(type);
    this.plans.set(type, plan);
    return plan;
  }

  /** Whether the class declares any field at all; one that does not is no DTO. */
  get isEmpty(): boolean {
    return this.fields.length === 0;
  }

  /**
   * Builds an object of the class from a JSON object or a parsed query.
   * @param describeUnknown the line about a key that the class does not declare
   * @returns the object; use it only if `problems` stayed empty
   */
  read(source: Bag, problems: Problems, describeUnknown: Run['describeUnknown']): object {
    return this.build(source, '', { problems, ignoreUnknown: this.lenient, describeUnknown });
  }

  private build(source: Bag, path: string, run: Run): object {
    const target: object = new this.type();
    if (!isBag(target)) throw new TypeError(`${this.type.name} is no class of objects`);
    let seen = 0;
    for (const field of this.fields) {
      const given = Object.hasOwn(source, field.name);
      if (given) seen += 1;
      readField(field, given ? source[field.name] : undefined, target, path, run);
    }
    if (!run.ignoreUnknown) {
      const keys = Object.keys(source);
      if (keys.length !== seen) this.reportUnknown(keys, path, run);
    }
    return target;
  }

  private reportUnknown(keys: readonly string[], path: string, run: Run): void {
    for (const key of keys) {
      if (!this.known.has(key)) run.problems.add(run.describeUnknown(path, key));
    }
  }

  /** Builds one object of the class below `path`, or reports that the value is none. */
  readNested(value: unknown, path: string, run: Run): object | undefined {
    if (isBag(value)) return this.build(value, path, run);
    run.problems.add(`${path} must be an object`);
    return undefined;
  }
}

/** Whether a value is a JSON object: no list, no null. */
export function isBag(value: unknown): value is Bag {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readField(field: FieldPlan, given: unknown, target: Bag, parent: string, run: Run): void {
  const { declared, name } = field;
  if (given === undefined || given === null) {
    const missing = !field.mayBeAbsent && target[name] === undefined;
    if (missing && declared.conditions.every((holds) => holds(target, undefined))) {
      run.problems.add(`${fieldPath(parent, name)} is required`);
    }
    return;
  }
  let value: unknown = given;
  if (field.build !== undefined) {
    const before = run.problems.count;
    value = field.build(given, fieldPath(parent, name), run);
    if (run.problems.count !== before) return;
  }
  target[name] = value;
  for (const holds of declared.conditions) if (!holds(target, value)) return;
  for (const check of declared.checks) {
    const line = check(value, target, parent === '' ? name : fieldPath(parent, name));
    if (line !== undefined) {
      run.problems.add(line);
      return;
    }
  }
}

const UNDECLARED: DeclaredField = { checks: [], conditions: [] };

function planField(name: string, declared: DeclaredField = UNDECLARED, rule?: FieldRule): FieldPlan {
  const mayBeAbsent = rule === undefined && declared.checks.length === 0;
  return rule === undefined
    ? { name, declared, mayBeAbsent }
    : { name, declared, mayBeAbsent, build: builderOf(rule) };
}

function builderOf(rule: FieldRule): NonNullable<FieldPlan['build']> {
  switch (rule.kind) {
    case 'nested':
      return (value, path, run) => DtoPlan.of(rule.type()).readNested(value, path, run);
    case 'nested-list':
      return (value, path, run) => readList(value, path, run, rule);
    case 'nested-map':
      return (value, path, run) => readMap(value, path, run, rule);
    case 'json-object':
      return (value, path, run) => {
        if (!isBag(value)) run.problems.add(`${path} must be an object`);
        return value;
      };
    case 'query':
      return (value, path, run) => {
        const read = typeof value === 'string' ? rule.read(value) : REFUSED;
        if (read === REFUSED) run.problems.add(`${path} ${rule.message}`);
        return read;
      };
    default:
      return assertNever(rule);
  }
}

interface ManyRule {
  readonly type: () => DtoClass;
  readonly max: number;
}

function readList(value: unknown, path: string, run: Run, { type, max }: ManyRule): unknown {
  if (!Array.isArray(value) || value.length > max) {
    run.problems.add(`${path} must be a list${bounded(max, 'items')}`);
    return undefined;
  }
  const plan = DtoPlan.of(type());
  return value.map((item: unknown, index) => plan.readNested(item, itemPath(path, index), run));
}

function readMap(value: unknown, path: string, run: Run, { type, max }: ManyRule): unknown {
  const entries = isBag(value) ? Object.entries(value) : undefined;
  if (entries === undefined || entries.length > max) {
    run.problems.add(`${path} must be an object${bounded(max, 'entries')}`);
    return undefined;
  }
  const plan = DtoPlan.of(type());
  // fromEntries defines own properties, so that an entry named __proto__ stays an entry.
  return Object.fromEntries(
    entries.map(([key, item]) => [key, plan.readNested(item, keyPath(path, key), run)] as const),
  );
}

function bounded(max: number, what: string): string {
  return max === Infinity ? '' : ` of at most ${max} ${what}`;
}
