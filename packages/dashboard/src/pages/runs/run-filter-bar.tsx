import { RUN_STATES } from '@longshore/client/constants';
import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive, type Run } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Icon } from '../../components/controls/icon.js';
import { Field, Suggestions, TextInput, type ControlProps } from '../../components/controls/inputs.js';
import { serviceNow } from '../../lib/clock.js';
import { formatCount } from '../../lib/format.js';
import { fromLocalInput, toLocalInput } from '../../lib/local-time.js';
import styles from './run-filter-bar.module.css';
import {
  FILTER_LABELS,
  isFiltered,
  isTimeFilter,
  RUN_FILTERS,
  TIME_FILTERS,
  type RunFilter,
  type RunFilters,
} from './run-filters.js';

const PRESETS = [
  ['15 minutes', 15],
  ['hour', 60],
  ['day', 24 * 60],
  ['week', 7 * 24 * 60],
] as const;

/** Filters by a text, each with the values that a run offers. */
const TEXTS = [
  ['op_definition', ({ op_definition: definition }) => [definition]],
  ['image', ({ image }) => [image]],
  ['topic', ({ event_delivery: feed }) => [feed?.topic]],
  ['selector', ({ selector }) => selector],
  ['concurrency_key', ({ concurrency }) => [concurrency?.key]],
  ['label', ({ labels }) => Object.entries(labels).map((label) => label.join('='))],
  ['name_prefix', ({ name }) => [name]],
  ['cause', ({ execution_summary: { cause } }) => [cause]],
  ['exit_code', ({ execution_summary: { exit_code: code } }) => [code?.toString()]],
  ['worker_id', ({ execution_summary: { worker_id: worker } }) => [worker]],
  ['created_by', ({ created_by: key }) => ['me', key?.key_id]],
  ['rerun_of', ({ rerun_of: id }) => [id]],
  ['schedule', ({ schedule }) => [schedule?.id]],
  ['group', ({ group }) => [group?.id]],
] as const satisfies readonly (readonly [
  keyof RunFilters,
  (run: Run) => readonly (string | null | undefined)[],
])[];

interface Props {
  readonly filters: RunFilters;
  readonly onChange: (change: Partial<RunFilters>) => void;
  /** Whether the fields beside the state are shown. */
  readonly isOpen: boolean;
  /** Runs whose values are offered. */
  readonly runs: readonly Run[] | undefined;
}

/** Filters of the list of runs: the state with how many there are, and the rest in a panel. */
export function RunFilterBar({ filters, onChange, isOpen, runs = [] }: Props) {
  const api = useApi();
  const { data: overview } = useLive({
    queryKey: ['overview'],
    queryFn: ({ signal }) => unwrap(api.GET('/overview', { signal })),
  });
  const counts = overview?.runs;
  const all = counts && Object.values(counts).reduce((sum, count) => sum + count, 0);
  return (
    <div role="search" aria-label="Filter runs">
      <div className={styles.states} role="group" aria-label="State">
        {(['', ...RUN_STATES] as const).map((state) => (
          <button
            key={state}
            type="button"
            className={styles.state}
            aria-pressed={filters.state === state}
            onClick={() => onChange({ state })}
          >
            {state === '' ? 'All' : state.toLowerCase()}
            <span className={styles.count}>{format(state === '' ? all : counts?.[state])}</span>
          </button>
        ))}
        {isFiltered({ ...filters, state: '' }) && <span className="muted">counts of all runs</span>}
      </div>
      {isOpen && (
        <div id="run-filters" className={styles.fields}>
          {TEXTS.map(([name, valuesOf]) => (
            <Field key={name} label={FILTER_LABELS[name]}>
              {(control) => (
                <ExactInput
                  control={control}
                  value={filters[name]}
                  suggestions={distinct(runs.flatMap(valuesOf))}
                  onChange={(text) => onChange({ [name]: text })}
                />
              )}
            </Field>
          ))}
          {TIME_FILTERS.map((bound) => (
            <Field key={bound} label={FILTER_LABELS[bound]}>
              {(control) => (
                <TextInput
                  {...control}
                  type="datetime-local"
                  step={1}
                  value={toLocalInput(filters[bound])}
                  onChange={(text) => onChange({ [bound]: fromLocalInput(text) })}
                />
              )}
            </Field>
          ))}
          <Presets title="Created in the last" onChoose={(from) => onChange({ from, to: '' })} />
          <Presets
            title="Ended in the last"
            onChoose={(from) => onChange({ ended_from: from, ended_to: '' })}
          />
        </div>
      )}
    </div>
  );
}

interface PresetsProps {
  readonly title: string;
  /** @param since the time at which the span began */
  readonly onChoose: (since: string) => void;
}

function Presets({ title, onChoose }: PresetsProps) {
  return (
    <div className={styles.presets} role="group" aria-label={title}>
      <span className="muted">{title}</span>
      {PRESETS.map(([label, minutes]) => (
        <Button key={label} size="small" onClick={() => onChoose(minutesAgo(minutes))}>
          {label}
        </Button>
      ))}
    </div>
  );
}

function format(count: number | undefined): string {
  return count === undefined ? '' : formatCount(count);
}

function minutesAgo(minutes: number): string {
  const seconds = Math.floor(serviceNow() / 1000 - minutes * 60);
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
}

function distinct(texts: readonly (string | null | undefined)[]): string[] {
  return [...new Set(texts.filter((text) => typeof text === 'string'))].toSorted();
}

interface ExactInputProps {
  readonly control: ControlProps;
  readonly value: string;
  /** Texts to choose from; one that is chosen counts at once. */
  readonly suggestions: readonly string[];
  readonly onChange: (value: string) => void;
}

/** A text that is compared to the letter: it counts when it is finished, by Enter or by leaving. */
function ExactInput({ control, value, suggestions, onChange }: ExactInputProps) {
  const [draft, setDraft] = useState<string>();
  const commit = (text = draft): void => {
    setDraft(undefined);
    if (text !== undefined && text.trim() !== value) onChange(text.trim());
  };
  return (
    <>
      <TextInput
        {...control}
        mono
        list={`${control.id}-list`}
        value={draft ?? value}
        spellCheck={false}
        autoComplete="off"
        onChange={(text) => (text === '' || suggestions.includes(text) ? commit(text) : setDraft(text))}
        onBlur={() => commit()}
        onKeyDown={({ key }) => {
          if (key === 'Enter') commit();
          if (key === 'Escape') setDraft(undefined);
        }}
      />
      <Suggestions id={`${control.id}-list`} texts={suggestions} />
    </>
  );
}

interface FilterChipsProps {
  readonly filters: RunFilters;
  readonly onRemove: (filter: RunFilter) => void;
}

/** The filters that are set, each with a press to remove it. */
export function FilterChips({ filters, onRemove }: FilterChipsProps) {
  const set = RUN_FILTERS.filter((name) => filters[name] !== '');
  if (set.length === 0) return null;
  return (
    <ul className={styles.chips} aria-label="Filters that are set">
      {set.map((name) => {
        const text = `${FILTER_LABELS[name]}: ${inWords(name, filters[name])}`;
        return (
          <li key={name}>
            <button
              type="button"
              className={styles.chip}
              aria-label={`Remove the filter ${text}`}
              title={text}
              onClick={() => onRemove(name)}
            >
              <span className="truncate">{text}</span>
              <Icon name="close" />
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function inWords(name: RunFilter, value: string): string {
  if (name === 'state') return value.toLowerCase();
  if (!isTimeFilter(name)) return value;
  return new Date(value).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}
