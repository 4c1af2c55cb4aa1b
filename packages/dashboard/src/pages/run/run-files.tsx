import { useState, type ReactNode } from 'react';
import { Link } from 'wouter';
import type { Run, Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { ErrorState } from '../../components/feedback/empty-state.js';
import { Badge, type Tone } from '../../components/values/badge.js';
import { Download, Picture, UploadedFile } from '../../files/file-links.js';
import { givenFiles, isPicture, type GivenFile } from '../../files/file-refs.js';
import { formatBytes, formatCount, shortId } from '../../lib/format.js';
import styles from './run-files.module.css';
import { isEnded } from './run-view.js';
import { useArtifacts } from './use-run.js';

type Artifact = Schemas['Artifact'];

/** Files that are listed at first; a pattern may leave a thousand. */
const MOST_SHOWN = 100;
/** Pictures that are shown without being asked for. */
const MOST_PICTURES = 12;

const TONES: Readonly<Record<Artifact['state'], Tone>> = {
  stored: 'good',
  missing: 'bad',
  removed: 'neutral',
};

/** The files that a run gets, and those that it has left. */
export function RunFiles({ run }: { readonly run: Run }) {
  const { data: artifacts, error } = useArtifacts(run);
  return (
    <div className={styles.sections}>
      <section>
        <h3>What it gets</h3>
        <GivenFiles files={givenFiles(run)} />
      </section>
      <section>
        <h3>What it has left</h3>
        {artifacts === undefined && error !== null && <ErrorState error={error} />}
        {artifacts?.length === 0 && (
          <p className="muted">
            {isEnded(run) ? 'Nothing.' : 'Nothing yet: it is listed when an attempt has ended.'}
          </p>
        )}
        <Files of={artifacts ?? []} label="Files that the run has left">
          {(artifact, index) => (
            <LeftFile key={artifact.name} runId={run.id} artifact={artifact} isOpen={index < MOST_PICTURES} />
          )}
        </Files>
      </section>
    </div>
  );
}

/** Files that a run gets: where it finds each, and what it is. */
export function GivenFiles({ files }: { readonly files: readonly GivenFile[] }) {
  if (files.length === 0) return <p className="muted">Nothing.</p>;
  return (
    <Files of={files} label="Files that the run gets">
      {({ place, source }) => (
        <li key={place} className={styles.file}>
          <code className={styles.place}>{place}</code>
          <span className={styles.facts}>
            <Origin source={source} />
            {source.unpack === true && <span className="muted">unpacked</span>}
          </span>
        </li>
      )}
    </Files>
  );
}

function Origin({ source: { file, run, name, url, store, key } }: Pick<GivenFile, 'source'>) {
  if (file !== undefined) return <UploadedFile id={file} />;
  if (run !== undefined) {
    return (
      <span>
        <code>{name}</code> of run{' '}
        <Link href={`/runs/${encodeURIComponent(run)}?tab=files`} title={run}>
          <code>{shortId(run)}</code>
        </Link>
      </span>
    );
  }
  return <code>{store === undefined ? url : `store:${store}/${key}`}</code>;
}

interface LeftFileProps {
  readonly runId: string;
  readonly artifact: Artifact;
  /** Whether a small picture is shown at once. */
  readonly isOpen: boolean;
}

function LeftFile({ runId, artifact, isOpen }: LeftFileProps) {
  const { name, path, bytes, sha256, content_type: type, state, to } = artifact;
  const ref = { run: runId, name };
  const isThere = state === 'stored';
  return (
    <li className={styles.file}>
      <span className={styles.place}>
        {isThere ? (
          <Download of={ref} label={name}>
            {name}
          </Download>
        ) : (
          name
        )}
      </span>
      <span className={styles.facts}>
        <Badge tone={TONES[state]}>{state}</Badge>
        {bytes !== null && <span>{formatBytes(bytes)}</span>}
        {type !== null && <span className="muted">{type}</span>}
        {path !== undefined && <code className="muted">{path}</code>}
        {to !== undefined && (
          <span>
            to <code>{`store:${to.store}/${to.key}`}</code>
          </span>
        )}
        {sha256 !== null && (
          <span className={styles.sum}>
            <code title={sha256}>{sha256.slice(0, 12)}</code>
            <CopyButton what={`SHA-256 of ${name}`} text={sha256} />
          </span>
        )}
      </span>
      {/* The page may show pictures of the main store alone. */}
      {isThere && to === undefined && isPicture(type) && (
        <Picture of={ref} name={name} bytes={bytes ?? 0} isOpen={isOpen} />
      )}
    </li>
  );
}

interface FilesProps<T> {
  readonly label: string;
  readonly of: readonly T[];
  readonly children: (file: T, index: number) => ReactNode;
}

/** A list whose end is shown when it is asked for. */
function Files<T>({ label, of: files, children }: FilesProps<T>) {
  const [isWhole, setWhole] = useState(false);
  if (files.length === 0) return null;
  const shown = isWhole ? files : files.slice(0, MOST_SHOWN);
  return (
    <>
      <ul aria-label={label} className={styles.list}>
        {shown.map(children)}
      </ul>
      {shown.length < files.length && (
        <Button size="small" onClick={() => setWhole(true)}>
          Show all {formatCount(files.length)}
        </Button>
      )}
    </>
  );
}
