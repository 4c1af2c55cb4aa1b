import { DataTable, type Column } from '../../components/table/data-table.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { Time } from '../../components/values/time.js';
import { formatCount } from '../../lib/format.js';
import type { Definition } from './definition-view.js';
import styles from './definitions-page.module.css';

const ROW_HEIGHT = { line: 40, card: 130 };

const COLUMNS: readonly Column<Definition>[] = [
  {
    id: 'version',
    header: 'Version',
    width: 'minmax(8rem, 1fr)',
    card: 'title',
    cell: ({ version }) => (
      <span className={styles.name} title={version}>
        {version}
      </span>
    ),
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
  { id: 'created', header: 'Created', width: '7rem', cell: ({ createdAt }) => <Time at={createdAt} /> },
  { id: 'updated', header: 'Updated', width: '7rem', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

interface Props {
  /** The newest first. */
  readonly versions: readonly Definition[];
  /** Whether there are older ones that are not shown. */
  readonly isCut: boolean;
}

/** The versions of a definition, each leading to what it says. */
export function VersionList({ versions, isCut }: Props) {
  return (
    <>
      {isCut && <p className="muted">The newest {formatCount(versions.length)} versions.</p>}
      <DataTable
        label="Versions"
        columns={COLUMNS}
        rows={versions}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        empty={<EmptyState title="There are no versions" />}
      />
    </>
  );
}

function keyOf({ version }: Definition): string {
  return version;
}

function hrefOf({ id, version }: Definition): string {
  return `/definitions/${encodeURIComponent(id)}?version=${encodeURIComponent(version)}`;
}
