import { useMutation, useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { describeError, unwrap } from '../api/answers.js';
import { useApi, type LongshoreClient, type Schemas } from '../api/use-api.js';
import { Button } from '../components/controls/button.js';
import { showToast } from '../components/feedback/toasts.js';
import { SERVICE_URL } from '../lib/addresses.js';
import { formatBytes, shortId } from '../lib/format.js';
import styles from './file-links.module.css';
import { reachableUrl, type FileRef } from './file-refs.js';

/** For so long the URL of a content is used; the service makes it for five minutes. */
const URL_MS = 240_000;
/** A picture with more bytes is fetched when somebody wants to see it. */
const SMALL_PICTURE = 2 * 1024 * 1024;

/** The URL from which the browser fetches a file. @throws ApiError */
async function contentUrl(api: LongshoreClient, ref: FileRef): Promise<string> {
  const query = { redirect: false };
  const { url } = await unwrap<Schemas['FileUrl']>(
    'file' in ref
      ? api.GET('/files/{id}/content', { params: { path: { id: ref.file }, query } })
      : api.GET('/runs/{id}/artifacts/{name}', { params: { path: { id: ref.run, name: ref.name }, query } }),
  );
  return reachableUrl(url, SERVICE_URL);
}

/** Lets the browser save what a URL gives; what the store sends is an attachment, so the page stays. */
function save(url: string): void {
  const link = document.createElement('a');
  link.href = url;
  link.download = '';
  link.click();
}

interface DownloadProps {
  readonly of: FileRef;
  /** What is downloaded, for screen readers. */
  readonly label: string;
  readonly children: ReactNode;
}

/** Downloads a file. */
export function Download({ of, label, children }: DownloadProps) {
  const api = useApi();
  const { mutate, isPending } = useMutation({
    mutationFn: () => contentUrl(api, of),
    onSuccess: save,
    onError: (error) => showToast('bad', describeError(error)),
  });
  return (
    <button
      type="button"
      className={styles.link}
      aria-label={`Download ${label}`}
      aria-busy={isPending || undefined}
      onClick={(event) => {
        event.stopPropagation();
        if (!isPending) mutate();
      }}
    >
      {children}
    </button>
  );
}

/** The name and the size of an upload, which is downloaded by its name. */
export function UploadedFile({ id }: { readonly id: string }) {
  const api = useApi();
  const { data: file, error } = useQuery({
    queryKey: ['files', id],
    queryFn: ({ signal }) => unwrap(api.GET('/files/{id}', { params: { path: { id } }, signal })),
    staleTime: URL_MS,
  });
  if (file === undefined) {
    return (
      <span title={id}>
        file <code>{shortId(id)}</code>
        {error !== null && <span className="muted"> · {describeError(error)}</span>}
      </span>
    );
  }
  return (
    <span title={id}>
      {file.state === 'stored' ? (
        <Download of={{ file: id }} label={file.name}>
          {file.name}
        </Download>
      ) : (
        file.name
      )}{' '}
      <span className="muted">
        {formatBytes(file.bytes)}
        {file.state !== 'stored' && `, ${file.state}`}
      </span>
    </span>
  );
}

interface PictureProps {
  readonly of: FileRef;
  readonly name: string;
  readonly bytes: number;
  /** Whether it is shown without being asked for, if it is small. */
  readonly isOpen: boolean;
}

/** A picture in its place, as an image: nothing of it is executed. */
export function Picture({ of, name, bytes, isOpen }: PictureProps) {
  const api = useApi();
  const [isWanted, setWanted] = useState(isOpen && bytes <= SMALL_PICTURE);
  const [isBroken, setBroken] = useState(false);
  const { data: url, error } = useQuery({
    queryKey: ['content', of],
    queryFn: () => contentUrl(api, of),
    enabled: isWanted,
    staleTime: URL_MS,
    gcTime: 0,
  });
  if (!isWanted) {
    return (
      <Button size="small" aria-label={`Show ${name}`} onClick={() => setWanted(true)}>
        Show
      </Button>
    );
  }
  if (error !== null) return <p className="muted">{describeError(error)}</p>;
  if (isBroken) return <p className="muted">The browser cannot show this as a picture.</p>;
  return (
    <div className={styles.frame} aria-busy={url === undefined}>
      {url !== undefined && (
        <img className={styles.picture} src={url} alt={name} onError={() => setBroken(true)} />
      )}
    </div>
  );
}
