import { useState, type ReactNode } from 'react';
import { Field, type ControlProps } from '../components/controls/field.js';
import { Select, TextArea, TextInput } from '../components/controls/inputs.js';
import { offsetHint } from '../lib/local-time.js';
import {
  pairsOf,
  textOf,
  type FieldErrors,
  type FieldValue,
  type FormField,
  type FormValues,
} from './form-values.js';
import { PairRows } from './pair-rows.js';
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
  { kind, required, placeholder, choices, rows }: FormField,
  control: ControlProps,
  value: string,
  onChange: (text: string) => void,
): ReactNode {
  const shared = { ...control, 'aria-required': required !== undefined, value, placeholder, onChange };
  if (choices !== undefined) return <Select {...shared} options={choices} />;
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
