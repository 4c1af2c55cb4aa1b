import { Icon } from '../../components/controls/icon.js';
import styles from './run-filter-bar.module.css';
import { FILTER_LABELS, isTimeFilter, RUN_FILTERS, type RunFilter, type RunFilters } from './run-filters.js';

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
