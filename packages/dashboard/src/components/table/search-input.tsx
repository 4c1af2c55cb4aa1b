import { Icon } from '../controls/icon.js';
import { TextInput } from '../controls/inputs.js';
import styles from './search-input.module.css';

interface Props {
  /** What is searched, such as `Search workers`. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}

/** The search of a page: the key `/` goes there, Escape empties it. */
export function SearchInput({ label, value, onChange, placeholder = label }: Props) {
  return (
    <div className={styles.search}>
      <Icon name="search" />
      <TextInput
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        data-page-search
        className={styles.input}
        value={value}
        placeholder={placeholder}
        onChange={onChange}
        spellCheck={false}
        autoComplete="off"
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          event.preventDefault();
          if (value === '') event.currentTarget.blur();
          else onChange('');
        }}
      />
    </div>
  );
}
