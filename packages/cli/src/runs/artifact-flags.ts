import type { Schemas } from '@longshore/client';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import { several } from '../command-kit.js';
import { withSources } from '../files/local-source.js';
import { uploadFile } from '../files/upload.js';
import type { Session } from '../service/session.js';
import { splitAssignment } from './inputs.js';
import { overlaid } from './job-file.js';
import { readRunId } from './run-ids.js';

type Artifacts = NonNullable<Schemas['OpRunCreate']['artifacts']>;
type Source = NonNullable<Artifacts['in']>[string];
type Target = NonNullable<Artifacts['out']>[string];

/** Flags for the files that a run gets and leaves. */
export interface ArtifactFlags {
  readonly in?: readonly string[];
  readonly out?: readonly string[];
  /** Nothing is sent. */
  readonly dryRun?: true;
}

/** Adds the flags for the files that a run gets and leaves. */
export function takesArtifactFlags(command: Command): Command {
  return command
    .option(
      '--in <path=source>',
      'a file that the run gets: @FILE or @FOLDER of this machine, id of a file, RUN/NAME of what a run has left, store:NAME/KEY, or ' +
        'https://... with ,sha256=HEX; ,unpack behind it: what an archive has',
      several,
    )
    .option(
      '--out <name=path>',
      'a file that is kept of the run, or by a pattern such as /out/*.png files; behind it ,optional or ,required, ,always (after a failure ' +
        'too), ,to=store:NAME/KEY',
      several,
    );
}

/**
 * Reads the flags, and sends local files and folders, after all have been read and packed.
 * @throws CliError for a flag that says something else, for what cannot be read or must not be sent, for a run that is not found
 */
export async function readArtifacts(
  { in: given = [], out = [], dryRun }: ArtifactFlags,
  session: Session,
  env: NodeJS.ProcessEnv,
): Promise<{ artifacts?: Artifacts }> {
  const wanted = given.map(readSource);
  const targets = out.map(readTarget);
  const local = wanted.flatMap((source) => source.local ?? []);
  const sources = await withSources(local, async (found) => {
    const ids = new Map<string, string>();
    if (!dryRun) for (const [said, source] of found) ids.set(said, await uploadFile(session, source));
    const read: (readonly [string, Source])[] = [];
    for (const one of wanted) {
      const { path, local: said, more } = one;
      if (said === undefined) read.push([path, { ...(await readPlace(one, session, env)), ...more }]);
      else if (dryRun) session.output.note(`not sent, and left out: ${said} as ${path}`);
      else {
        const unpack = found.get(said)?.entries === undefined ? more : { ...more, unpack: true };
        read.push([path, { file: ids.get(said) ?? '', ...unpack }]);
      }
    }
    return read;
  });
  const artifacts = {
    ...(sources.length > 0 && { in: Object.fromEntries(sources) }),
    ...(targets.length > 0 && { out: Object.fromEntries(targets) }),
  };
  return Object.keys(artifacts).length === 0 ? {} : { artifacts };
}

/**
 * Sends the local files that inputs of the type `file` name as `@FILE`, after all have been read and packed.
 * @param assignments `name=value` of inputs
 * @returns these with the ids of files @throws CliError for what cannot be read or must not be sent
 */
export async function uploadInputs(
  assignments: readonly string[],
  types: ReadonlyMap<string, string>,
  session: Session,
  { dryRun }: Pick<ArtifactFlags, 'dryRun'>,
): Promise<readonly string[]> {
  const given = assignments.map((assignment) => {
    const [name, value] = splitAssignment(assignment);
    const isLocal = types.get(name)?.toLowerCase() === 'file' && value.startsWith('@');
    return { assignment, name, local: isLocal ? value.slice(1) : undefined };
  });
  const local = given.flatMap((one) => one.local ?? []);
  if (local.length === 0) return assignments;
  return withSources(local, async (found) => {
    const ids = new Map<string, string>();
    if (!dryRun) for (const [said, source] of found) ids.set(said, await uploadFile(session, source));
    return given.flatMap(({ assignment, name, local: said }) => {
      if (said === undefined) return [assignment];
      const id = ids.get(said);
      if (id !== undefined) return [`${name}=${id}`];
      session.output.note(`not sent, and left out below: ${said} as input ${name}`);
      return [];
    });
  });
}

/** A run with the files that flags give, path by path and name by name beside those that it has. */
export function withArtifacts(run: JsonObject, { artifacts }: { artifacts?: Artifacts }): JsonObject {
  if (artifacts === undefined) return run;
  const { artifacts: before } = run;
  return overlaid(run, { artifacts: isJsonObject(before) ? overlaid(before, artifacts) : artifacts });
}

interface FlaggedSource {
  readonly path: string;
  /** A local file or folder. */
  readonly local: string | undefined;
  readonly place: string;
  readonly more: Pick<Source, 'unpack' | 'sha256'>;
}

/** Reads `/data/x.csv=@x.csv` and `/data=https://host/x.tar,sha256=...,unpack`. @throws CliError */
function readSource(text: string): FlaggedSource {
  const [path, value] = splitAssignment(text);
  const [, place = '', options = ''] = /^(.*?)((?:,unpack|,sha256=[0-9a-fA-F]{64})*)$/s.exec(value) ?? [];
  const [, sha256] = /,sha256=(\w+)/.exec(options) ?? [];
  const more = {
    ...(sha256 !== undefined && { sha256: sha256.toLowerCase() }),
    ...(options.includes(',unpack') && { unpack: true }),
  };
  const isLocal = place.startsWith('@') && !place.startsWith('@last/');
  return { path, place, more, local: isLocal ? place.slice(1) : undefined };
}

/** Where a source is that is not local. @throws CliError */
async function readPlace(
  { path, place }: FlaggedSource,
  session: Session,
  env: NodeJS.ProcessEnv,
): Promise<Source> {
  if (/^[a-z]+:\/\//i.test(place)) return { url: place };
  const store = readStore(place);
  if (store !== undefined) return store;
  const at = place.indexOf('/');
  if (at > 0) return { run: await readRunId(session, place.slice(0, at), env), name: place.slice(at + 1) };
  if (/^[0-9a-f-]{36}$/i.test(place)) return { file: place };
  throw usageError(
    `expected ${path}=@FILE, =@FOLDER, =FILE_ID, =RUN/NAME, =store:NAME/KEY or =https://...,sha256=HEX`,
  );
}

/** Reads `store:results/models/a.bin`; undefined: it is something else. */
function readStore(text: string): { store: string; key: string } | undefined {
  const [, store, key] = /^store:([^/]+)\/(.+)$/s.exec(text) ?? [];
  return store === undefined || key === undefined ? undefined : { store, key };
}

/** Reads `model=/out/model.bin,optional,to=store:results/models/`. @throws CliError */
function readTarget(text: string): readonly [string, Target] {
  const [name, value] = splitAssignment(text);
  const [path = '', ...words] = value.split(',');
  const target: Target = { path };
  for (const word of words) {
    const to = word.startsWith('to=') ? readStore(word.slice(3)) : undefined;
    if (word === 'optional' || word === 'required') target.required = word === 'required';
    else if (word === 'always') target.when = 'always';
    else if (to !== undefined) target.to = to;
    else
      throw usageError(
        `${word} of --out ${name} is none of optional, required, always and to=store:NAME/KEY`,
      );
  }
  return [name, target];
}
