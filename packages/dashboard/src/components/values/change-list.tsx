import type { JsonChange } from '../../lib/json-changes.js';
import styles from './change-list.module.css';
import { Headings } from './facts.js';

const MARKS: Readonly<Record<JsonChange['kind'], string>> = { added: '+', removed: '−', changed: '±' };

interface Props {
  /** What changed, such as `Changes from 1.0 to 1.1`. */
  readonly label: string;
  readonly changes: readonly JsonChange[];
}

/** What differs between two JSON values: a line a field, with what it was and what it is. */
export function ChangeList({ label, changes }: Props) {
  return (
    <table className={styles.table} aria-label={label}>
      <Headings names={['Field', 'Before', 'After']} />
      <tbody>
        {changes.map(({ kind, path, before, after }) => (
          <tr key={`${kind} ${path}`} data-kind={kind}>
            <th scope="row">
              <span className={styles.mark} aria-hidden="true">
                {MARKS[kind]}
              </span>
              <span className={styles.path}>
                <code>{path}</code>
                <span className={styles.kind}>{kind}</span>
              </span>
            </th>
            <td data-side="before">
              <Value value={before} />
            </td>
            <td data-side="after">
              <Value value={after} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Value({ value }: { readonly value: unknown }) {
  if (value === undefined) return <span className="muted">not there</span>;
  return <code className={styles.value}>{JSON.stringify(value, null, 2)}</code>;
}
