import type { Column } from '../../components/table/data-table.js';
import { Subject } from './audit-subject.js';
import { Time } from '../../components/values/time.js';
import { summaryOf, type AuditEntry } from './audit-view.js';
import styles from './audit-page.module.css';

export const AUDIT_COLUMNS: readonly Column<AuditEntry>[] = [
  {
    id: 'change',
    header: 'Change',
    width: 'minmax(14rem, 3fr)',
    card: 'title',
    cell: (entry) => (
      <span className={styles.summary} title={summaryOf(entry)}>
        {summaryOf(entry)}
      </span>
    ),
  },
  { id: 'time', header: 'Time', width: '7rem', cell: ({ t }) => <Time at={t} /> },
  {
    id: 'key',
    header: 'Key',
    width: 'minmax(7rem, 1fr)',
    cell: ({ key_name: name }) => (
      <div className="truncate" title={name}>
        {name}
      </div>
    ),
  },
  {
    id: 'subject',
    header: 'What',
    width: 'minmax(10rem, 1fr)',
    card: 'full',
    cell: (entry) => <Subject entry={entry} />,
  },
];
