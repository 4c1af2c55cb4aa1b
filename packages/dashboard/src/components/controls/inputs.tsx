import {
  useId,
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
} from 'react';
import { classNames } from '../../lib/class-names.js';
import fieldStyles from './field.module.css';
import styles from './inputs.module.css';

type Without<T> = Omit<T, 'onChange' | 'value'>;

interface TextInputProps extends Without<InputHTMLAttributes<HTMLInputElement>> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** For ids, images and other things that are compared letter by letter. */
  readonly mono?: boolean;
}

/** A line of text. */
export function TextInput({ onChange, mono = false, className, ...rest }: TextInputProps) {
  return (
    <input
      type="text"
      {...rest}
      className={classNames(styles.input, mono && styles.mono, className)}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

/** Texts that are offered for an input. @param id its `list` */
export function Suggestions({ id, texts }: { readonly id: string; readonly texts: readonly string[] }) {
  return (
    <datalist id={id}>
      {texts.map((text) => (
        <option key={text}>{text}</option>
      ))}
    </datalist>
  );
}

interface PasswordInputProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'value' | 'type'> {
  readonly ref: Ref<HTMLInputElement>;
}

/** A value that is not shown, and that nothing but the browser's own control keeps: read it from the element. */
export function PasswordInput(props: PasswordInputProps) {
  return <input autoComplete="off" spellCheck={false} {...props} type="password" className={styles.input} />;
}

interface TextAreaProps extends Without<TextareaHTMLAttributes<HTMLTextAreaElement>> {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Several lines of text, such as JSON. */
export function TextArea({ onChange, className, ...rest }: TextAreaProps) {
  return (
    <textarea
      spellCheck={false}
      {...rest}
      className={classNames(styles.input, styles.area, className)}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

interface SelectProps<V extends string> extends Without<SelectHTMLAttributes<HTMLSelectElement>> {
  readonly value: V;
  /** Values and their words, in order. */
  readonly options: readonly (readonly [value: V, label: string])[];
  readonly onChange: (value: V) => void;
}

/** One of a few values. */
export function Select<V extends string>({ options, onChange, className, ...rest }: SelectProps<V>) {
  return (
    <select
      {...rest}
      className={classNames(styles.input, styles.select, className)}
      onChange={({ target }) => {
        const chosen = options.find(([value]) => value === target.value);
        if (chosen !== undefined) onChange(chosen[0]);
      }}
    >
      {options.map(([value, label]) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </select>
  );
}

interface CheckboxProps {
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly children: ReactNode;
}

/** A yes or no with its label. */
export function Checkbox({ isChecked, onChange, children }: CheckboxProps) {
  return (
    <label className={styles.checkbox}>
      <input type="checkbox" checked={isChecked} onChange={(event) => onChange(event.target.checked)} />
      {children}
    </label>
  );
}

/** What ties a control to its label, hint and error; spread it on the control. */
export interface ControlProps {
  readonly id: string;
  readonly 'aria-describedby': string | undefined;
  readonly 'aria-invalid': true | undefined;
}

interface Props {
  readonly label: string;
  /** What to enter, shown below. */
  readonly hint?: ReactNode;
  /** What is wrong; announced when it appears. */
  readonly error?: string | undefined;
  /** Shows the label to screen readers only, where the place says it to everybody else. */
  readonly isLabelHidden?: boolean;
  readonly children: (control: ControlProps) => ReactNode;
}

/** A control of a form with its label, hint and error. */
export function Field({ label, hint, error, isLabelHidden = false, children }: Props) {
  const id = useId();
  const noteId = `${id}-note`;
  const hasNote = hint !== undefined || error !== undefined;
  return (
    <div className={fieldStyles.field}>
      <label htmlFor={id} className={isLabelHidden ? 'visually-hidden' : fieldStyles.label}>
        {label}
      </label>
      {children({
        id,
        'aria-describedby': hasNote ? noteId : undefined,
        'aria-invalid': error === undefined ? undefined : true,
      })}
      <div id={noteId} aria-live="polite">
        {error !== undefined && <p className={fieldStyles.error}>{error}</p>}
        {error === undefined && hint !== undefined && <p className={fieldStyles.hint}>{hint}</p>}
      </div>
    </div>
  );
}
