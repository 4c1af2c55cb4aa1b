import type { RootCommand } from '@bomb.sh/tab';
import { oneLine } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { openSession, type CliContext } from './command-kit.js';
import { BEGINNING, readRunId } from './runs/run-ids.js';
import type { Session } from './service/session.js';

/** A shell waits for completions: what is not there by then is left out. */
const WAIT_MS = 1000;
const MOST = 50;
/** Words that no shell takes apart. */
const PLAIN = /^[\w.:@%+=/-]+$/;

type Choice = readonly [value: string, description: string];

/** Lets completions of arguments name what the service has: runs and what they have left, groups, definitions and their inputs, schedules, workers. */
export function completeFromService(program: Command, root: RootCommand, context: CliContext): void {
  const complete = program.commands.find((one) => one.name() === 'complete');
  complete?.hook('preAction', async (_, { args }) => {
    try {
      await addChoices(program, root, args, await openSession({}, context), context.env);
    } catch {
      // No key, no answer in time: completion has the commands and flags.
    }
  });
}

async function addChoices(
  program: Command,
  root: RootCommand,
  words: readonly string[],
  session: Session,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const [group, name] = words;
  const parent = program.commands.find((one) => one.name() === group);
  const command = parent?.commands.find((one) => one.name() === name);
  const completed = command && root.commands.get(`${group} ${name}`);
  const word = words.at(-1) ?? '';
  if (command === undefined || completed === undefined || words.length < 3) return;
  const of = new Ask(session, env);
  const isInput = group === 'def' && name === 'run' && words.length > 3;
  if (isInput) {
    const inputs = await of.inputs(words[2] ?? '');
    for (const [input, description] of inputs) completed.option(input.replaceAll('_', '-'), description);
    completed.option(
      'input',
      'an input',
      (add) => inputs.forEach(([input, text]) => add(`${input}=`, text)),
      'i',
    );
    return;
  }
  if (word.startsWith('-')) return;
  for (const argument of command.registeredArguments) {
    const kind = KINDS[`${group} ${argument.name()}`];
    if (kind === undefined) continue;
    const choices = await (kind === 'artifacts' ? of.artifacts(words[2] ?? '') : of[kind](word));
    completed.argument(
      argument.name(),
      (add) => choices.forEach(([value, description]) => add(value, description)),
      argument.variadic,
    );
  }
}

type Kind = 'runs' | 'artifacts' | 'groups' | 'definitions' | 'schedules' | 'workers';

/** What an argument names, by the group of its command. */
const KINDS: Readonly<Record<string, Kind>> = {
  'run run': 'runs',
  'run other': 'runs',
  'run artifacts': 'artifacts',
  'group group': 'groups',
  'def name': 'definitions',
  'schedule schedule': 'schedules',
  'workers id': 'workers',
};

/** Asks the service once, for as long as a shell may wait. */
class Ask {
  private readonly init = { signal: AbortSignal.timeout(WAIT_MS), redirect: 'manual' } as const;

  constructor(
    private readonly session: Session,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /** The newest runs whose id or name begins so. */
  async runs(word: string): Promise<readonly Choice[]> {
    const ask = async (filter: { readonly id_prefix?: string; readonly name_prefix?: string }) => {
      const params = { query: { ...filter, limit: MOST, include_events: false } };
      return (await this.session.client.GET('/runs', { params, ...this.init })).data?.data ?? [];
    };
    const [byId, byName] = await Promise.all([
      word === '' ? ask({}) : BEGINNING.test(word) ? ask({ id_prefix: word }) : [],
      word === '' ? [] : ask({ name_prefix: word }),
    ]);
    const ids = byId.map(({ id, name, state }): Choice => [id, oneLine(`${name ?? ''} ${state}`)]);
    const names = [...byId, ...byName].map(({ name, state }): Choice => [name ?? '', state]);
    return [...ids, ...names, ['@last', 'the last run created from here'] as const].filter(isPlain);
  }

  /** What a run has left. */
  async artifacts(run: string): Promise<readonly Choice[]> {
    const id = await readRunId(this.session, run, this.env);
    const params = { path: { id } };
    const { data = [] } = await this.session.client.GET('/runs/{id}/artifacts', { params, ...this.init });
    return data.map(({ name, state }): Choice => [name, state]).filter(isPlain);
  }

  async groups(): Promise<readonly Choice[]> {
    const params = { query: { limit: MOST } };
    const { data = [] } = await this.session.client.GET('/groups', { params, ...this.init });
    return data.map(({ id, name, state }): Choice => [id, oneLine(`${name ?? ''} ${state}`)]);
  }

  async definitions(word: string): Promise<readonly Choice[]> {
    const params = { query: { limit: MOST, ...(word === '' ? {} : { search: word }) } };
    const { data = [] } = await this.session.client.GET('/latest-definitions', { params, ...this.init });
    return data.map(({ id, image }): Choice => [id, oneLine(image)]).filter(isPlain);
  }

  async schedules(word: string): Promise<readonly Choice[]> {
    const params = { query: { limit: MOST, ...(word === '' ? {} : { search: word }) } };
    const { data = [] } = await this.session.client.GET('/schedules', { params, ...this.init });
    return data.map(({ id, description }): Choice => [id, oneLine(description ?? '')]).filter(isPlain);
  }

  async inputs(name: string): Promise<readonly Choice[]> {
    const params = { path: { name } };
    const { data } = await this.session.client.GET('/definitions/{name}', { params, ...this.init });
    return Object.entries(data?.input_specs ?? {})
      .map(([input, { type, description }]): Choice => [input, oneLine(`${type} ${description ?? ''}`)])
      .filter(isPlain);
  }

  async workers(): Promise<readonly Choice[]> {
    const params = { query: { limit: MOST } };
    const { data = [] } = await this.session.client.GET('/workers', { params, ...this.init });
    return data.map(({ id, tags }): Choice => [id, oneLine(tags.join(' '))]).filter(isPlain);
  }
}

function isPlain([value]: Choice): boolean {
  return PLAIN.test(value);
}
