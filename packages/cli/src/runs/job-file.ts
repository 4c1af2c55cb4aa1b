import { isUtf8 } from 'node:buffer';
import type { Readable } from 'node:stream';
import { composeJson, jsonText, memberTexts, readExactly } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { oneLine } from '@longshore/common/shown-text';
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  type Document,
  type Node,
  type Pair,
} from 'yaml';
import { CliError, EXIT, usageError } from '../cli-error.js';
import type { Output } from '../terminal/output.js';
import { readBytes } from './inputs.js';

/** What aliases of YAML may come to, in characters of JSON. */
const MOST_ALIASED = 1024 * 1024;
/** An alias may be within what it stands for. */
const MOST_LEVELS = 200;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
/** The path of a field at the beginning of an error or a warning of the API: `mounts[0].path`, `env["A B"]`, `args.1`. */
const PATH = /^[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*|\.\d+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*/;
const STEPS = /[A-Za-z_$][\w$-]*|\d+|\[\d+\]|\["(?:[^"\\]|\\.)*"\]/g;

/** A run or a definition of a file. */
export interface Job {
  readonly value: JsonObject;
  /** Undefined: it comes from flags. */
  readonly file: string | undefined;
  /** The file and the line of a field, as `job.yaml:12`; of the job itself where it has no such field. @param error of the API */
  placeOf(error: string): string;
}

/**
 * Reads objects from a file in JSON or YAML: one, a list, or several documents of these. Numbers keep all their digits.
 * @param file `-` is standard input
 * @throws CliError for a file that cannot be read or has no object, with the line
 */
export async function readJobs(file: string, stdin: Readable): Promise<readonly Job[]> {
  const name = file === '-' ? 'standard input' : file;
  const bytes = await readBytes(file, stdin);
  if (!isUtf8(bytes)) throw usageError(`${name} is not UTF-8 text`);
  const lines = new LineCounter();
  const documents = parseAllDocuments(bytes.toString(), { lineCounter: lines, prettyErrors: false });
  const placeAt = (node: Node): string => `${name}:${lines.linePos(node.range?.[0] ?? 0).line}`;
  const jobs = ('empty' in documents ? [] : documents).flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) {
      throw usageError(`${name}:${lines.linePos(error.pos[0]).line}: ${error.message}`);
    }
    const { contents } = document;
    if (contents === null || (isScalar(contents) && contents.value === null)) return [];
    const nodes = isSeq(contents) ? contents.items : [contents];
    return nodes.map((item): Job => {
      const node = resolved(item, document);
      if (!isMap(node)) throw usageError(`${placeAt(node)}: expected an object`);
      const writer = new JsonWriter(document, placeAt);
      const value = readExactly(writer.textOf(node));
      if (!isJsonObject(value)) throw usageError(`${placeAt(node)}: expected an object`);
      return { value, file: name, placeOf: (text) => placeAt(fieldOf(node, text, document)) };
    });
  });
  if (jobs.length === 0) throw usageError(`${name} is empty: it needs an object or a list of them`);
  return jobs;
}

/** What the service says of a job, behind its line of the file. */
export function placed(job: Job, text: string): string {
  return job.file === undefined ? text : `${job.placeOf(text)}: ${text}`;
}

/** Prints what the service refuses of a job, each at its line of the file, as compilers do. */
export function noteRefusal(job: Job, { message, problems }: CliError, output: Output): void {
  for (const problem of problems.length === 0 ? [message] : problems)
    output.note(oneLine(placed(job, problem)));
}

/** Throws an error, after {@link noteRefusal} where it is about what the file says. */
export function throwAt(job: Job, error: unknown, output: Output): never {
  if (!(error instanceof CliError) || error.exitCode !== EXIT.failed || job.file === undefined) throw error;
  noteRefusal(job, error, output);
  throw new CliError(EXIT.failed, `the service refuses ${job.file}`);
}

/** A job with the fields that flags give: members of objects one by one, lists and texts in place of those of the file. */
export function overlaid(job: JsonObject, flags: object): JsonObject {
  const members = new Map(memberTexts(job));
  for (const [key, text] of memberTexts(flags)) {
    const [before, after]: readonly unknown[] = [job[key], Reflect.get(flags, key)];
    if (!isJsonObject(after) || before === undefined || before === null) members.set(key, text);
    else if (isJsonObject(before))
      members.set(key, jsonText(composeJson(new Map([...memberTexts(before), ...memberTexts(after)]))));
    // What is no object in the file is refused by the service, unless a flag replaces it.
    else if (Object.keys(after).length > 0) members.set(key, text);
  }
  return composeJson(members);
}

/** A job without some of its fields. */
export function without(job: object, ...fields: readonly string[]): JsonObject {
  return composeJson([...memberTexts(job)].filter(([field]) => !fields.includes(field)));
}

/** The field that an error begins with, or the deepest object around it that the file has. */
function fieldOf(job: Node, error: string, document: Document): Node {
  let [node, place] = [job, job];
  for (const [step] of (PATH.exec(error)?.[0] ?? '').matchAll(STEPS)) {
    const key: unknown = step.startsWith('[') ? JSON.parse(step.slice(1, -1)) : step;
    if (isSeq(node)) {
      const item = node.items[Number(key)];
      if (item === undefined) break;
      node = place = resolved(item, document);
      continue;
    }
    const pair = isMap(node) ? node.items.find((one) => keyText(one.key) === key) : undefined;
    if (pair === undefined) break;
    place = resolved(pair.key, document);
    if (pair.value === null) break;
    node = resolved(pair.value, document);
  }
  return place;
}

/** Prints nodes of YAML as JSON. */
class JsonWriter {
  private aliased = 0;
  private depth = 0;

  constructor(
    private readonly document: Document,
    private readonly placeAt: (node: Node) => string,
  ) {}

  /** @throws CliError for what JSON does not have */
  textOf(item: unknown): string {
    if (isAlias(item) && item.resolve(this.document) === undefined)
      throw usageError(`${this.placeAt(item)}: Unresolved alias ${item.source}`);
    const node = resolved(item, this.document);
    this.depth += 1;
    if (this.depth > MOST_LEVELS) throw usageError(`${this.placeAt(node)}: more than ${MOST_LEVELS} levels`);
    const text = isSeq(node)
      ? `[${node.items.map((one) => this.textOf(one)).join(',')}]`
      : isMap(node)
        ? `{${node.items.map((pair) => this.memberOf(pair, node)).join(',')}}`
        : this.scalarOf(node);
    this.depth -= 1;
    if (isAlias(item)) this.aliased += text.length;
    if (this.aliased > MOST_ALIASED) throw usageError(`${this.placeAt(node)}: its aliases come to too much`);
    return text;
  }

  private memberOf({ key, value }: Pair, map: Node): string {
    const name = keyText(key);
    if (name === undefined) throw usageError(`${this.placeAt(map)}: a key that is no text`);
    return `${JSON.stringify(name)}:${value === null ? 'null' : this.textOf(value)}`;
  }

  private scalarOf(node: Node): string {
    const { value, source } = isScalar(node) ? node : { value: undefined, source: undefined };
    if (typeof value === 'number' && source !== undefined && NUMBER.test(source)) return source;
    const isJson = value === null || ['string', 'boolean'].includes(typeof value) || Number.isFinite(value);
    if (isJson) return JSON.stringify(value);
    throw usageError(`${this.placeAt(node)}: a value that JSON does not have`);
  }
}

/** The node that an alias stands for. */
function resolved(node: unknown, document: Document): Node {
  const target = isAlias(node) ? node.resolve(document) : node;
  if (isScalar(target) || isMap(target) || isSeq(target)) return target;
  throw usageError('an alias of a list of jobs that stands for nothing');
}

function keyText(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined;
  return typeof key.value === 'string' ? key.value : key.source;
}
