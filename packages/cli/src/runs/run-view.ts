import type { Schemas } from '@longshore/client';
import { RUN_OPTIONS, type RunOption } from '@longshore/client/constants';
import { jsonText, stringifyJson } from '@longshore/common/json/json-text';
import { describeGrowth, describeNeeds, shortFile } from '@longshore/client/needs';
import { shellWords } from '@longshore/common/shell-words';
import { oneLine } from '@longshore/common/shown-text';
import { STATE_COLOURS } from '../terminal/style.js';
import { ago, type Column, formatFields } from '../terminal/table.js';

type Run = Schemas['OpRun'];

const LONGEST_DETAIL = 500;

/** Columns of a list of runs. */
export const RUN_COLUMNS: readonly Column<Run>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'STATE', text: ({ state }) => state, colour: ({ state }) => STATE_COLOURS[state] },
  { title: 'REASON', text: ({ reason }) => reason ?? '-' },
  { title: 'DONE', text: ({ progress }) => `${progress} %` },
  {
    title: 'ATTEMPT',
    text: ({ current_attempt: n, retry_policy: { max_attempts: most } }) => `${n}/${Math.max(n, most)}`,
  },
  { title: 'AGE', text: ({ createdAt }) => ago(createdAt) },
  { title: 'NAME', text: ({ name }) => (name === null ? '-' : oneLine(name)), isElastic: true },
  { title: 'DEFINITION', text: (run) => definitionOf(run) ?? '-', isElastic: true },
  { title: 'IMAGE', text: ({ image }) => image, isElastic: true },
];

/** The other runs in execution that have the key of a run; undefined without any. */
export function holdersText(concurrency: Schemas['RunExplanation']['concurrency']): string | undefined {
  return concurrency?.holders.map(({ run_id: id }) => id).join(', ') || undefined;
}

/** All fields of a run, one per line. @param holders the other runs that hold its concurrency key */
export function runDetails(run: Run, colours: boolean, holders?: string): string {
  const { execution_summary: summary, constraints, retry_policy: retries, timeouts } = run;
  const limits = [
    timeouts?.start_within_s === undefined ? '' : `start within ${timeouts.start_within_s} s`,
    timeouts?.attempt_s === undefined ? '' : `${timeouts.attempt_s} s an attempt`,
  ].filter((part) => part !== '');
  return formatFields(
    [
      ['id', run.id],
      ['name', run.name === null ? undefined : oneLine(run.name)],
      ['labels', optionText(run.labels)],
      ['state', run.state, STATE_COLOURS[run.state]],
      ['progress', `${run.progress} %`],
      ['attempt', `${run.current_attempt} of ${Math.max(retries.max_attempts, run.current_attempt)}`],
      ['image', oneLine(run.image)],
      ['definition', definitionOf(run)],
      ['priority', String(run.priority)],
      ['needs', describeNeeds(constraints, inMb).join(', ') || undefined],
      ['grew from', summary.asked_ram_mb === undefined ? undefined : `${inMb(summary.asked_ram_mb)} RAM`],
      ['limits', limits.length === 0 ? undefined : limits.join(', ')],
      ...optionFields(run),
      ['key held by', holders],
      ['topic', run.event_delivery === null ? undefined : oneLine(run.event_delivery.topic)],
      ['worker', summary.worker_id],
      ['created', run.createdAt],
      ['created by', run.created_by === null ? undefined : oneLine(run.created_by.key_name)],
      ['rerun of', run.rerun_of ?? undefined],
      ['group', groupOf(run)],
      ['schedule', run.schedule ? `${run.schedule.id} at ${run.schedule.time}` : undefined],
      ['reruns', run.reruns === 0 ? undefined : String(run.reruns)],
      ['started', summary.started_at],
      ['finished', summary.finished_at],
      [
        'took',
        summary.duration_ms === undefined ? undefined : `${(summary.duration_ms / 1000).toFixed(3)} s`,
      ],
      ['cause', summary.cause],
      ['exit code', summary.exit_code?.toString()],
      ['cancelled because', summary.cancel_reason === undefined ? undefined : oneLine(summary.cancel_reason)],
      ['error', summary.error_message === undefined ? undefined : oneLine(summary.error_message)],
      ['inputs', jsonText(run.inputs)],
      ['outputs', jsonText(run.outputs)],
    ],
    colours,
  );
}

/** What a run would be: its image, options and inputs, one per line. */
export function runPreview(run: Run, colours: boolean): string {
  return formatFields(
    [
      ['image', oneLine(run.image)],
      ['definition', definitionOf(run)],
      ...optionFields(run),
      ['inputs', jsonText(run.inputs)],
    ],
    colours,
  );
}

/** What a run says of its container and of where and when it may execute, each where it says something. */
function optionFields(run: Run): readonly (readonly [string, string | undefined])[] {
  const { selector, concurrency, retry_policy: retries } = run;
  return [
    ...RUN_OPTIONS.map(
      ({ name, default: unset }) =>
        [name.replaceAll('_', ' '), run[name] === unset ? undefined : optionText(run[name])] as const,
    ),
    ['files in', optionText(run.artifacts.in ?? {})],
    ['files out', optionText(run.artifacts.out ?? {})],
    ['selector', selector.length === 0 ? undefined : selector.map(oneLine).join(', ')],
    [
      'concurrency',
      concurrency === null
        ? undefined
        : `${oneLine(concurrency.key)}, at most ${concurrency.limit}${concurrency.on_limit === undefined ? '' : `, then ${concurrency.on_limit}`}`,
    ],
    ['starts at', run.start_at ?? undefined],
    ['retries on', retries.retry_on?.join(', ')],
    ['grows', retries.grow && describeGrowth(retries.grow, inMb)],
  ];
}

/** Lists and maps as a shell would read them, objects as JSON; undefined when there is nothing. */
function optionText(value: Run[RunOption['name']]): string | undefined {
  if (value === null) return undefined;
  if (typeof value !== 'object') return oneLine(String(value));
  if (Array.isArray(value)) return shellWords(value.map(wordOf)) || undefined;
  return shellWords(Object.entries(value).map(([name, item]) => `${name}=${wordOf(item)}`)) || undefined;
}

function inMb(mb: number): string {
  return `${mb} MB`;
}

function wordOf(item: string | object): string {
  return typeof item === 'string' ? item : JSON.stringify(shortFile(item));
}

/** An event of a timeline on one line. */
export function eventText({ t, type, msg, payload }: Schemas['PolledEvent']): string {
  const said = type === 'PROGRESS' ? `${msg} %` : String(msg);
  const more = payload['error_message'] ?? payload['outputs'] ?? reasonOf(type, payload);
  const shown = typeof more === 'string' || more === undefined ? more : stringifyJson(more);
  const detail = oneLine(shown === undefined ? said : shown.startsWith(said) ? shown : `${said} ${shown}`);
  const cut = detail.length > LONGEST_DETAIL ? `${detail.slice(0, LONGEST_DETAIL)}...` : detail;
  return `${t}  ${oneLine(type).padEnd(9)}  ${cut}`.trimEnd();
}

/** Why a submitted job waits. */
function reasonOf(type: string, { reason }: Schemas['PolledEvent']['payload']): unknown {
  return type === 'SUBMITTED' ? reason : undefined;
}

function groupOf({ group, array }: Run): string | undefined {
  if (group === null) return undefined;
  if (array !== null) return `${group.id}, index ${array.index} of ${array.size}`;
  return group.ref === null ? group.id : `${group.id} as ${group.ref}`;
}

function definitionOf({ op_definition: name, op_definition_version: version }: Run): string | undefined {
  if (name === null) return undefined;
  return version === null ? name : `${name}/${version}`;
}
