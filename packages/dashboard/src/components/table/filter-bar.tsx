import type { ReactNode } from 'react';
import { Button } from '../controls/button.js';
import { Icon } from '../controls/icon.js';
import { TextInput } from '../controls/inputs.js';
import styles from './filter-bar.module.css';
import searchInputStyles from './search-input.module.css';

interface Props {
  /** What is filtered, such as `Filter workers`. */
  readonly label: string;
  /** Whether any filter is set. */
  readonly isActive: boolean;
  readonly onClear: () => void;
  /** The controls, in a row as long as there is room. */
  readonly children: ReactNode;
}

/** The filters of a list. */
export function FilterBar({ label, isActive, onClear, children }: Props) {
  return (
    <div role="search" aria-label={label} className={styles.bar}>
      {children}
      <Button kind="quiet" disabled={!isActive} onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}

interface SearchInputProps {
  /** What is searched, such as `Search workers`. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}

/** The search of a page: the key `/` goes there, Escape empties it. */
export function SearchInput({ label, value, onChange, placeholder = label }: SearchInputProps) {
  return (
    <div className={searchInputStyles.search}>
      <Icon name="search" />
      <TextInput
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        data-page-search
        className={searchInputStyles.input}
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
