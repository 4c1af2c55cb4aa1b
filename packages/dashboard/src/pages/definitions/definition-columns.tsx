import type { Schemas } from '../../api/use-api.js';
import type { Column } from '../../components/table/data-table.js';
import { Time } from '../../components/values/time.js';
import { formatCount } from '../../lib/format.js';
import styles from './definitions-page.module.css';

/** A definition with its newest version, as the API has it. */
export type LatestDefinition = Schemas['LatestOpDefinition'];

export const DEFINITION_COLUMNS: readonly Column<LatestDefinition>[] = [
  {
    id: 'name',
    header: 'Definition',
    width: 'minmax(10rem, 2fr)',
    card: 'title',
    cell: ({ id }) => (
      <span className={styles.name} title={id}>
        {id}
      </span>
    ),
  },
  {
    id: 'version',
    header: 'Newest version',
    width: 'minmax(7rem, 1fr)',
    cell: ({ version }) => (
      <div className="truncate" title={version}>
        {version}
      </div>
    ),
  },
  {
    id: 'versions',
    header: 'Versions',
    width: '5rem',
    align: 'end',
    cell: ({ versions }) => <span className={styles.count}>{formatCount(versions)}</span>,
  },
  {
    id: 'image',
    header: 'Image',
    width: 'minmax(10rem, 2.4fr)',
    card: 'full',
    cell: ({ image }) => (
      <div className="truncate" title={image}>
        <code>{image}</code>
      </div>
    ),
  },
  { id: 'updated', header: 'Updated', width: '7rem', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];
