import { validateSync } from 'class-validator';
import { quote, readCommandLine } from './command-line.js';
import { SETTING_KEYS, type SettingKey, type SettingKind } from './setting-keys.js';
import { API_KEY_SCOPES, Settings, type ApiKeySetting } from './settings.js';

/** The settings cannot be used. `problems` holds one line per wrong setting, without any secret. */
export class SettingsError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'SettingsError';
  }
}

/** The text of one setting and where it came from. */
interface Source {
  readonly key: SettingKey;
  readonly text: string | undefined;
  /** What a problem calls the setting. */
  readonly name: string;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
]);

function findSource(key: SettingKey, flagText: string | undefined, env: NodeJS.ProcessEnv): Source {
  if (flagText !== undefined) {
    return { key, text: flagText, name: `--${key.flag} (${key.env})` };
  }
  const envText = env[key.env];
  // An empty variable counts as unset: shells and compose files cannot always remove one.
  return { key, text: envText === undefined || envText === '' ? key.default : envText, name: key.env };
}

function wrongValue({ key, text, name }: Source): string {
  const value = key.secret ? ' (the value is not shown)' : `, got ${quote(text ?? '')}`;
  return `${name} must be ${key.allowed}${value}`;
}

/** Reads `scope:key,...`; problems name the position of an entry, never its text. */
function readApiKeys(
  text: string,
  name: string,
): { keys: readonly ApiKeySetting[]; problems: readonly string[] } {
  const keys: ApiKeySetting[] = [];
  const faults: string[] = [];
  for (const [index, entry] of text.split(',').entries()) {
    const [scopeText, ...rest] = entry.trim().split(':');
    const scope = API_KEY_SCOPES.find((candidate) => candidate === scopeText);
    const key = rest.join(':');
    if (scope === undefined) {
      faults.push(`entry ${index + 1} does not start with admin:, client: or worker:`);
    } else if (!/^[\x21-\x7e]+$/.test(key)) {
      faults.push(`the key of entry ${index + 1} is empty or holds a character that is not visible ASCII`);
    } else {
      keys.push({ scope, key });
    }
  }
  const allowed = SETTING_KEYS.find((candidate) => candidate.kind === 'api-keys')?.allowed ?? '';
  return {
    keys,
    problems:
      faults.length > 0 ? [`${name} must be ${allowed}: ${faults.join('; ')} (the value is not shown)`] : [],
  };
}

/** Turns text into the kind of value the setting holds; text that does not fit is left for the validators to refuse. */
function readValue(kind: Exclude<SettingKind, 'api-keys'>, text: string): boolean | number | string {
  switch (kind) {
    case 'integer':
      return /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    case 'number':
      return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : Number.NaN;
    case 'boolean':
      return BOOLEANS.get(text.trim().toLowerCase()) ?? text;
    case 'text':
      return text;
  }
  return kind satisfies never;
}

/**
 * Builds the settings from the arguments after the script's name and the environment.
 * A flag wins over its variable, a variable over the default; an empty variable counts as unset.
 * @throws SettingsError with a line for every wrong setting, not only the first.
 */
export function loadSettings(argv: readonly string[], env: NodeJS.ProcessEnv): Settings {
  const commandLine = readCommandLine(argv);
  const problems = [...commandLine.problems];
  const sources = new Map<string, Source>();
  const values: Record<string, unknown> = {};

  for (const key of SETTING_KEYS) {
    const source = findSource(key, commandLine.values.get(key.field), env);
    sources.set(key.field, source);
    if (key.kind === 'api-keys') {
      const read =
        source.text === undefined ? { keys: [], problems: [] } : readApiKeys(source.text, source.name);
      values[key.field] = read.keys;
      problems.push(...read.problems);
    } else {
      values[key.field] = source.text === undefined ? undefined : readValue(key.kind, source.text);
    }
  }

  const settings = new Settings(values);
  const wrong = new Set(validateSync(settings).map((error) => error.property));
  if (settings.databaseUrl !== undefined && !URL.canParse(settings.databaseUrl)) {
    wrong.add('databaseUrl');
  }
  // Each process would know its own workers only, and reclaim the runs of the others'.
  if (settings.workerPool === 'memory' && settings.workers > 1 && !wrong.has('workers')) {
    wrong.add('workerPool');
  }
  for (const [field, source] of sources) {
    if (wrong.has(field)) {
      problems.push(wrongValue(source));
    }
  }
  if (problems.length > 0) {
    throw new SettingsError(problems);
  }
  return settings;
}
