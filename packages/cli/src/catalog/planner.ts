import { composeJson, memberTexts } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { CliError, EXIT } from '../cli-error.js';
import { readPages } from '../command-kit.js';
import { noteRefusal } from '../runs/job-file.js';
import type { LocalFiles } from '../runs/local-files.js';
import type { Answer, Session } from '../service/session.js';
import { DEFINITIONS, SCHEDULES, storeDefinition, storeSchedule } from './objects.js';
import {
  appliedBy,
  bodyOf,
  changesOf,
  isApplied,
  isChanged,
  toApplied,
  type Change,
  type Stored,
} from './plan.js';
import type { Entry, Kind } from './read-entries.js';

/** What is to be done with one object. */
export interface Step {
  readonly action: 'create' | 'change' | 'unchanged' | 'prune';
  readonly kind: Kind;
  readonly key: string;
  readonly changes: readonly Change[];
  /** Why it is done only with `--overwrite`. */
  readonly conflict?: string | undefined;
  /** What the changes do not tell. */
  readonly note?: string | undefined;
  /** Does it; undefined: there is nothing to do. */
  readonly run?: () => Promise<unknown>;
}

/** Finds out what makes the service have what files of a set say. */
export class Planner {
  private readonly stored = new Map<string, Stored>();
  /** Names of definitions and schedules of which the service has none, or another one, than it will have. */
  private readonly coming = new Set<string>();

  constructor(
    private readonly session: Session,
    private readonly set: string,
    private readonly local: LocalFiles,
  ) {}

  /** What is to be done, in this order. @param entries definitions first @throws CliError after it has noted what the service refuses */
  async plan(entries: readonly Entry[], prune: boolean): Promise<readonly Step[]> {
    const { session } = this;
    for await (const rows of readPages(session, DEFINITIONS))
      for (const shown of rows) this.add({ kind: 'definition', key: DEFINITIONS.cursorOf(shown), shown });
    for await (const rows of readPages(session, SCHEDULES))
      for (const shown of rows) this.add({ kind: 'schedule', key: shown.id, shown });
    const steps: Step[] = [];
    for (const entry of inOrder(entries)) {
      try {
        const step = await this.stepOf(entry);
        if (step.run) this.coming.add(`${entry.kind} ${entry.key.replace(/\/.*/, '')}`);
        steps.push(step);
      } catch (error) {
        if (!(error instanceof CliError) || error.exitCode !== EXIT.failed) throw error;
        noteRefusal(entry.job, error, session.output);
      }
    }
    const refused = entries.length - steps.length;
    if (refused > 0)
      throw new CliError(
        EXIT.failed,
        `the service refuses ${refused} of ${entries.length} entries; nothing was changed`,
      );
    const named = new Set(entries.map(nameOf));
    const left = [...this.stored.values()].filter(
      (stored) => !named.has(nameOf(stored)) && appliedBy(this.set, stored) !== null,
    );
    if (!prune && left.length > 0)
      session.output.note(`--prune would delete what is in no file: ${left.map(nameOf).join(', ')}`);
    const removals = prune ? left.map((one) => this.removalOf(one)) : [];
    return [...steps, ...removals.filter(isOfSchedule), ...removals.filter((step) => !isOfSchedule(step))];
  }

  private add(stored: Stored): void {
    this.stored.set(nameOf(stored), stored);
  }

  private async stepOf(entry: Entry): Promise<Step> {
    const { kind, key, job } = entry;
    const stored = this.stored.get(nameOf(entry));
    const mine = appliedBy(this.set, stored);
    const { local } = this;
    const body = await local.known(bodyOf(entry, stored, mine), job, stored?.shown);
    /** What names local files that are not as the service has them. */
    const unsent = await local.members(body, job);
    const hasUnsent = Object.keys(unsent).length > 0;
    const preview = async (sent: JsonObject): Promise<Stored> => {
      const { data: shown } = await this.store(entry, sent, true);
      return { kind, key, shown };
    };
    const after = await preview(await local.without(body, job)).catch((error: unknown) =>
      this.unchecked(entry, error),
    );
    const run = async (): Promise<void> => {
      const sent = await local.sent(body, job);
      const shown = after === undefined || hasUnsent ? await preview(sent) : after;
      const applied = toApplied(this.set, entry, shown, mine);
      const marked = composeJson([...memberTexts(sent), ['applied', JSON.stringify(applied)]]);
      const { response } = await this.store(entry, marked, false);
      this.session.output.warnings(response, (text) => `${job.placeOf(text)}: ${text}`);
    };
    const note = after === undefined ? 'is checked when what it names is there' : undefined;
    if (stored === undefined) return { action: 'create', kind, key, changes: [], note, run };
    const changes = changesOf(stored, { ...(after?.shown ?? { ...stored.shown, ...body }), ...unsent }, mine);
    const conflict = conflictOf(this.set, stored, changes);
    if (changes.length > 0 || mine === null)
      return {
        action: 'change',
        kind,
        key,
        changes,
        conflict,
        note: mine ? note : `joins the set ${this.set}`,
        run,
      };
    if (isApplied(entry, mine)) return { action: 'unchanged', kind, key, changes };
    return { action: 'change', kind, key, changes, note: 'only which fields the file gives', run };
  }

  /** Lets a schedule pass that the service can only check when the definitions and schedules are stored that it names. */
  private unchecked({ kind, body }: Entry, error: unknown): undefined {
    const named = [
      ...definitionsOf(body).map((name) => `definition ${name}`),
      ...schedulesOf(body).map((name) => `schedule ${name}`),
    ];
    if (kind === 'schedule' && named.some((name) => this.coming.has(name))) return undefined;
    throw error;
  }

  private removalOf(stored: Stored): Step {
    const { kind, key } = stored;
    const mine = appliedBy(this.set, stored);
    const conflict = mine && isChanged(stored, mine) ? 'changed since it was applied' : undefined;
    return { action: 'prune', kind, key, changes: [], conflict, run: () => this.remove(stored) };
  }

  private store({ kind, key }: Entry, body: JsonObject, isTrial: boolean): Promise<Answer<Stored['shown']>> {
    return kind === 'definition'
      ? storeDefinition(this.session, body, isTrial)
      : storeSchedule(this.session, key, body, isTrial);
  }

  private remove({ kind, key }: Stored): Promise<unknown> {
    const { client } = this.session;
    const [name = '', version = ''] = key.split('/');
    return this.session.ask<unknown>((init) =>
      kind === 'definition'
        ? client.DELETE('/definitions/{name}', { params: { path: { name }, query: { version } }, ...init })
        : client.DELETE('/schedules/{id}', { params: { path: { id: key } }, ...init }),
    );
  }
}

/** Why an object is changed only with `--overwrite`. */
function conflictOf(set: string, { shown }: Stored, changes: readonly Change[]): string | undefined {
  const { applied } = shown;
  if (applied !== null && applied.set !== set) return `of the set ${applied.set}`;
  const others = changes.filter(({ isConflict }) => isConflict).map(({ field }) => field);
  if (others.length === 0) return undefined;
  return applied === null ? 'not made by apply' : `changed since it was applied: ${others.join(', ')}`;
}

function nameOf({ kind, key }: Pick<Stored, 'kind' | 'key'>): string {
  return `${kind} ${key}`;
}

function isOfSchedule({ kind }: Step): boolean {
  return kind === 'schedule';
}

/** Each schedule after those that it waits for; the service refuses those that wait for each other. */
function inOrder(entries: readonly Entry[]): readonly Entry[] {
  const byName = new Map(entries.map((entry) => [nameOf(entry), entry]));
  const seen = new Set<Entry>();
  const withParents = (entry: Entry): Entry[] => {
    if (seen.has(entry)) return [];
    seen.add(entry);
    const parents = entry.kind === 'schedule' ? schedulesOf(entry.body) : [];
    const before = parents.flatMap((key) => byName.get(nameOf({ kind: 'schedule', key })) ?? []);
    return [...before.flatMap(withParents), entry];
  };
  return entries.flatMap(withParents);
}

/** The bodies of the runs of a schedule. */
function bodiesOf({ run, group }: JsonObject): readonly JsonObject[] {
  const { runs, array } = isJsonObject(group) ? group : {};
  const all = [run, ...(Array.isArray(runs) ? runs : []), isJsonObject(array) ? array['run'] : undefined];
  return all.filter(isJsonObject);
}

/** The definitions that the runs of a schedule are of, as its body names them. */
function definitionsOf(body: JsonObject): readonly string[] {
  return bodiesOf(body).flatMap(({ definition }) => (typeof definition === 'string' ? definition : []));
}

/** The schedules that the runs or the array of a schedule wait for. */
function schedulesOf(body: JsonObject): readonly string[] {
  const { group } = body;
  const entries = [...bodiesOf(body), ...(isJsonObject(group) ? [group] : [])].flatMap(
    ({ depends_on: all }) => (Array.isArray(all) ? all : []),
  );
  return entries.flatMap((one) =>
    isJsonObject(one) && typeof one['schedule'] === 'string' ? one['schedule'] : [],
  );
}
