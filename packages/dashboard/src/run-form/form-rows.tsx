import { useId, useState, type ReactNode } from 'react';
import { Button } from '../components/controls/button.js';
import { IconButton } from '../components/controls/icon.js';
import { Field, Select, TextArea, TextInput, type ControlProps } from '../components/controls/inputs.js';
import { offsetHint } from '../lib/local-time.js';
import { FileField } from './file-field.js';
import {
  pairsOf,
  textOf,
  type FieldErrors,
  type FieldValue,
  type FormField,
  type FormValues,
  type Pair,
} from './form-values.js';
import type { FieldRows } from './run-fields.js';
import styles from './run-form.module.css';

/** What fields show and how they change. */
export interface FormState {
  readonly values: FormValues;
  readonly errors: FieldErrors;
  readonly onChange: (path: string, value: FieldValue) => void;
}

interface RowsProps extends FormState {
  readonly rows: FieldRows;
  /** The field that has the focus first in a dialog. */
  readonly focus?: string;
}

/** Rows of fields, side by side where there is room. */
export function FormRows({ rows, focus, ...state }: RowsProps) {
  return rows.map((row) => (
    <div key={row[0]?.path} className={styles.row}>
      {row.map((field) => (
        <FormControl key={field.path} field={field} hasFocus={field.path === focus} {...state} />
      ))}
    </div>
  ));
}

interface AdvancedProps extends FormState {
  readonly rows: FieldRows;
  /** What holds for all of its fields. */
  readonly note?: string;
}

/** The part of a form that few runs need. */
export function Advanced({ rows, note, ...state }: AdvancedProps) {
  const hasError = rows.flat().some(({ path }) => state.errors[path] !== undefined);
  return (
    <More
      summary="Advanced: environment, command, secrets, CPU and GPUs, selector, concurrency, retries by cause"
      hasError={hasError}
    >
      {note !== undefined && <p className="muted">{note}</p>}
      <FormRows rows={rows} {...state} />
    </More>
  );
}

interface MoreProps {
  readonly summary: string;
  readonly hasError: boolean;
  readonly children: ReactNode;
}

/** A part of a form that is closed at first. An error opens it; it stays open when the error is gone. */
export function More({ summary, hasError, children }: MoreProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      className={styles.more}
      open={isOpen || hasError}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>{summary}</summary>
      <div className={styles.fields}>{children}</div>
    </details>
  );
}

interface ControlOfProps extends FormState {
  readonly field: FormField;
  readonly hasFocus: boolean;
}

function FormControl({ field, hasFocus, values, errors, onChange }: ControlOfProps) {
  const { path, kind, label, hint } = field;
  const change = (value: FieldValue): void => onChange(path, value === '' ? undefined : value);
  if (kind === 'pairs') {
    return (
      <PairRows
        label={label}
        hint={hint}
        error={errors[path]}
        pairs={pairsOf(values, path)}
        onChange={change}
      />
    );
  }
  const text = textOf(values, path);
  return (
    <Field label={label} hint={(kind === 'time' && offsetHint(text)) || hint} error={errors[path]}>
      {(control) => controlOf(field, { ...control, ...(hasFocus && FIRST) }, text, change)}
    </Field>
  );
}

const FIRST = { 'data-autofocus': true };

function controlOf(
  { kind, label, required, placeholder, choices, rows }: FormField,
  control: ControlProps,
  value: string,
  onChange: (text: string) => void,
): ReactNode {
  const shared = { ...control, 'aria-required': required !== undefined, value, placeholder, onChange };
  if (choices !== undefined) return <Select {...shared} options={choices} />;
  if (kind === 'file') return <FileField {...shared} label={label} />;
  if (kind === 'object' || kind === 'objects') return <TextArea {...shared} rows={rows ?? 5} />;
  if (kind === 'array' || kind === 'label') return <TextArea {...shared} rows={4} />;
  if (kind === 'words') return <TextArea {...shared} rows={2} className={styles.words} />;
  if (kind === 'time') return <TextInput {...shared} type="datetime-local" step={1} />;
  return (
    <TextInput
      {...shared}
      autoComplete="off"
      spellCheck={kind === 'verbatim'}
      mono={kind === 'text' || kind === 'number' || kind === 'list'}
      inputMode={kind === 'integer' ? 'numeric' : kind === 'number' ? 'decimal' : 'text'}
    />
  );
}

interface Props {
  /** What a row is, such as `Environment variables`. */
  readonly label: string;
  readonly hint: string | undefined;
  readonly error: string | undefined;
  readonly pairs: readonly Pair[];
  readonly onChange: (pairs: readonly Pair[]) => void;
}

/** Names and values in rows, with buttons to add and remove one. */
export function PairRows({ label, hint, error, pairs, onChange }: Props) {
  const noteId = useId();
  const set = (at: number, change: Partial<Pair>): void =>
    onChange(pairs.map((pair, index) => (index === at ? { ...pair, ...change } : pair)));
  return (
    <fieldset className={styles.pairs} aria-describedby={noteId}>
      <legend>{label}</legend>
      {pairs.map(({ name, value }, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- a row has nothing of its own but its place
        <div key={index} className={styles.pair}>
          <TextInput
            mono
            aria-label={`${label}: name ${index + 1}`}
            placeholder="Name"
            autoComplete="off"
            spellCheck={false}
            value={name}
            onChange={(text) => set(index, { name: text })}
          />
          <TextInput
            mono
            aria-label={`${label}: value ${index + 1}`}
            placeholder="Value"
            autoComplete="off"
            spellCheck={false}
            value={value}
            onChange={(text) => set(index, { value: text })}
          />
          <IconButton
            label={`${label}: remove row ${index + 1}`}
            icon="close"
            onClick={() => onChange(pairs.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <Button
        size="small"
        aria-label={`${label}: add a row`}
        onClick={() => onChange([...pairs, { name: '', value: '' }])}
      >
        Add
      </Button>
      <p id={noteId} aria-live="polite" className={error === undefined ? styles.hint : styles.error}>
        {error ?? hint}
      </p>
    </fieldset>
  );
}
