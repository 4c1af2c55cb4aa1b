import type { Column } from '../../components/table/data-table.js';
import { Time } from '../../components/values/time.js';
import { DeleteButton } from './delete-button.js';
import { ReplaceButton } from './replace-button.js';
import styles from './secrets-page.module.css';
import type { Secret } from './secret-view.js';

export const SECRET_COLUMNS: readonly Column<Secret>[] = [
  {
    id: 'name',
    header: 'Name',
    width: 'minmax(9rem, 2fr)',
    card: 'title',
    cell: ({ name }) => (
      <code className={styles.name} title={name}>
        {name}
      </code>
    ),
  },
  { id: 'kind', header: 'Kind', width: 'minmax(5rem, 1fr)', cell: ({ kind }) => <span>{kind}</span> },
  { id: 'created', header: 'Created', width: '6rem', cell: (secret) => <Time at={secret.created_at} /> },
  { id: 'updated', header: 'Replaced', width: '6rem', cell: (secret) => <Time at={secret.updated_at} /> },
  {
    id: 'change',
    header: 'Change',
    width: '11rem',
    align: 'end',
    cell: (secret) => (
      <div className={styles.change}>
        <ReplaceButton secret={secret} />
        <DeleteButton name={secret.name} />
      </div>
    ),
  },
];
