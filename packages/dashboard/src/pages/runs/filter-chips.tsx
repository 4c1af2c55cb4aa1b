import { Icon } from '../../components/controls/icon.js';
import styles from './run-filter-bar.module.css';
import { RUN_FILTERS, type RunFilter, type RunFilters } from './run-filters.js';

const WORDS: Readonly<Record<RunFilter, string>> = {
  state: 'State',
  op_definition: 'Definition',
  image: 'Image',
  topic: 'Topic',
  selector: 'Selector',
  concurrency_key: 'Concurrency key',
  label: 'Labels',
  name_prefix: 'Name begins with',
  cause: 'Cause of failure',
  exit_code: 'Exit code',
  from: 'Created from',
  to: 'Created to',
};

interface Props {
  readonly filters: RunFilters;
  readonly onRemove: (filter: RunFilter) => void;
}

/** The filters that are set, each with a press to remove it. */
export function FilterChips({ filters, onRemove }: Props) {
  const set = RUN_FILTERS.filter((name) => filters[name] !== '');
  if (set.length === 0) return null;
  return (
    <ul className={styles.chips} aria-label="Filters that are set">
      {set.map((name) => {
        const text = `${WORDS[name]}: ${inWords(name, filters[name])}`;
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
  if (name !== 'from' && name !== 'to') return value;
  return new Date(value).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}
