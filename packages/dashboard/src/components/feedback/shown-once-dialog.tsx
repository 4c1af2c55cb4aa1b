import { useState, type ReactNode } from 'react';
import { Button } from '../controls/button.js';
import { CopyButton } from '../controls/copy-button.js';
import { Field, TextInput } from '../controls/inputs.js';
import { Dialog } from './dialog.js';
import styles from './shown-once-dialog.module.css';

interface Props {
  readonly onClose: () => void;
  readonly title: string;
  /** What it is in a sentence, such as `key`, and as a label, such as `API key`. */
  readonly what: string;
  readonly label: string;
  readonly value: string;
  readonly children: ReactNode;
}

/** Shows a value that cannot be read again. */
export function ShownOnceDialog({ onClose, title, what, label, value, children }: Props) {
  const [isWarned, setWarned] = useState(false);
  return (
    <Dialog
      // A slip of the hand must not lose it.
      onClose={isWarned ? onClose : () => setWarned(true)}
      title={title}
      actions={
        <Button kind="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <p>{children}</p>
      <p className={styles.warning} role="alert">
        {isWarned
          ? `Copy the ${what} first: when you close this dialog again, the ${what} is lost.`
          : 'Copy it now. It is shown this once and cannot be read again.'}
      </p>
      <div className={styles.secret}>
        <Field label={label} isLabelHidden>
          {(control) => (
            <TextInput
              {...control}
              value={value}
              onChange={() => undefined}
              onFocus={(event) => event.currentTarget.select()}
              readOnly
              mono
            />
          )}
        </Field>
        <CopyButton what={label} text={value} />
      </div>
    </Dialog>
  );
}
