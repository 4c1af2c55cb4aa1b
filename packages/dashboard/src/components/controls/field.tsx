import { useId, type ReactNode } from 'react';
import styles from './field.module.css';

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
    <div className={styles.field}>
      <label htmlFor={id} className={isLabelHidden ? 'visually-hidden' : styles.label}>
        {label}
      </label>
      {children({
        id,
        'aria-describedby': hasNote ? noteId : undefined,
        'aria-invalid': error === undefined ? undefined : true,
      })}
      <div id={noteId} aria-live="polite">
        {error !== undefined && <p className={styles.error}>{error}</p>}
        {error === undefined && hint !== undefined && <p className={styles.hint}>{hint}</p>}
      </div>
    </div>
  );
}
