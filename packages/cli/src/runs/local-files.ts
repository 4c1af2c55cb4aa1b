import { dirname, isAbsolute, join } from 'node:path';
import { composeJson, lazyObject, memberTexts } from '@longshore/common/json/json-text';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import { CliError, EXIT } from '../cli-error.js';
import { withSources, type LocalSource } from '../files/local-source.js';
import { uploadFile } from '../files/upload.js';
import type { Session } from '../service/session.js';
import type { Job } from './job-file.js';

/** Members of schedules and groups in which runs are. */
const WITH_RUNS: readonly string[] = ['run', 'runs', 'array', 'group'];

/** A source of `artifacts.in` that is a local file or folder, as `"/app": "@./src"`. */
interface Named {
  /** The JSON text of what the file says. */
  readonly text: string;
  /** The keys that lead to it, the last of which is the path for the run. */
  readonly at: readonly string[];
  readonly source: LocalSource;
  readonly unpack: boolean;
}

/** Gives the JSON text in the place of a source; undefined: it is left out. */
type Replace = (named: Named) => string | undefined | Promise<string | undefined>;

/** Reads and packs the local files and folders that jobs name. @throws CliError that names what must not be sent or cannot be read */
export async function withLocalFiles<T>(
  session: Session,
  jobs: readonly Job[],
  { dryRun = false }: { readonly dryRun?: boolean },
  use: (local: LocalFiles) => Promise<T>,
): Promise<T> {
  const paths: string[] = [];
  for (const { value, file } of jobs)
    await textWith(value, (said) => {
      paths.push(readNamed(said, file).path);
      return undefined;
    });
  return withSources(paths, (sources) => use(new LocalFiles(session, sources, dryRun)));
}

/** The local files and folders that files of jobs name, each relative to the file that names it. */
export class LocalFiles {
  private readonly ids = new Map<string, string>();

  constructor(
    private readonly session: Session,
    private readonly sources: ReadonlyMap<string, LocalSource>,
    private readonly isDryRun: boolean,
  ) {}

  /** Jobs with the ids of files that are sent; without local files, where they are only checked. @throws CliError */
  async inJobs<J extends Job>(jobs: readonly J[], isTrial: boolean = this.isDryRun): Promise<readonly J[]> {
    const done: J[] = [];
    for (const job of jobs) {
      const value = await (isTrial ? this.without(job.value, job) : this.sent(job.value, job));
      done.push({ ...job, value });
    }
    return done;
  }

  /** A body with the ids of files that are sent, unless the service has them. @throws CliError */
  sent(body: JsonObject, job: Job): Promise<JsonObject> {
    return this.replaced(body, job, async ({ source, unpack }) => {
      const id = this.ids.get(source.said) ?? (await uploadFile(this.session, source));
      this.ids.set(source.said, id);
      return sourceText(id, unpack);
    });
  }

  /** A body with the ids that an object of the service has in the same places, where these files have the same content. */
  known(body: JsonObject, job: Job, stored: object | undefined): Promise<JsonObject> {
    return this.replaced(body, job, async ({ text, at, source, unpack }) => {
      const id = valueAt(stored, [...at, 'file']);
      return typeof id === 'string' && (await this.hasContent(id, source)) ? sourceText(id, unpack) : text;
    });
  }

  /** A body without its local files; a dry run says so. */
  without(body: JsonObject, job: Job): Promise<JsonObject> {
    return this.replaced(body, job, ({ at, source }) => {
      if (this.isDryRun) this.session.output.note(`not sent, and left out: ${source.said} as ${at.at(-1)}`);
      return undefined;
    });
  }

  /** The members of a body that name local files. */
  async members(body: JsonObject, job: Job): Promise<JsonObject> {
    const named = new Set<string | undefined>();
    await this.replaced(body, job, ({ at: [member] }) => {
      named.add(member);
      return undefined;
    });
    return composeJson([...memberTexts(body)].filter(([member]) => named.has(member)));
  }

  private async replaced(body: JsonObject, { file }: Job, replace: Replace): Promise<JsonObject> {
    const text = await textWith(body, (said, at) => {
      const { path, unpack } = readNamed(said, file);
      const source = this.sources.get(path);
      if (source === undefined) throw new Error(`${path} has not been read`);
      const isArchive = unpack || source.entries !== undefined;
      return replace({ text: JSON.stringify(said), at, source, unpack: isArchive });
    });
    return lazyObject(text);
  }

  private async hasContent(id: string, { bytes, sha256 }: LocalSource): Promise<boolean> {
    const { client } = this.session;
    const file = await this.session
      .ask((init) => client.GET('/files/{id}', { params: { path: { id } }, ...init }))
      .catch((error: unknown) => {
        if (error instanceof CliError && error.exitCode === EXIT.failed) return undefined;
        throw error;
      });
    return file?.state === 'stored' && file.bytes === bytes && file.sha256 === sha256;
  }
}

/** The JSON text of a body with others in the places of the local files that it names. */
async function textWith(
  body: JsonObject | JsonValue[],
  replace: (said: string, at: readonly string[]) => ReturnType<Replace>,
  at: readonly string[] = [],
): Promise<string> {
  const isIn = at.at(-2) === 'artifacts' && at.at(-1) === 'in';
  const texts = new Map(memberTexts(body));
  for (const [key, value] of Object.entries<JsonValue>(Object(body))) {
    const place = [...at, key];
    if (isIn && typeof value === 'string' && value.startsWith('@')) {
      const text = await replace(value, place);
      if (text === undefined) texts.delete(key);
      else texts.set(key, text);
    } else if (typeof value === 'object' && value !== null && !isIn && leads(place))
      texts.set(key, await textWith(value, replace, place));
  }
  if (Array.isArray(body)) return `[${[...texts.values()].join(',')}]`;
  return `{${Array.from(texts, ([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`;
}

/** Whether there may be a local file below a place of a body. */
function leads(place: readonly string[]): boolean {
  const [key = '', before] = place.toReversed();
  return WITH_RUNS.includes(key) || before === 'runs' || key === 'artifacts' || before === 'artifacts';
}

function readNamed(said: string, file: string | undefined): { path: string; unpack: boolean } {
  const unpack = said.endsWith(',unpack');
  const path = said.slice(1, unpack ? -',unpack'.length : undefined);
  return { path: path === '' || isAbsolute(path) ? path : join(dirname(file ?? ''), path), unpack };
}

function sourceText(id: string, unpack: boolean): string {
  return JSON.stringify({ file: id, ...(unpack && { unpack }) });
}

function valueAt(value: unknown, keys: readonly string[]): unknown {
  return keys.reduce((at, key) => (at === undefined || at === null ? undefined : Object(at)[key]), value);
}
