import { useId } from 'react';
import { Button } from '../components/controls/button.js';
import { IconButton } from '../components/controls/icon.js';
import { TextInput } from '../components/controls/inputs.js';
import type { Pair } from './form-values.js';
import styles from './run-form.module.css';

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
