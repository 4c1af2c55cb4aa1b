import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode } from 'react';
import { createQueryClient } from '../api/query-client.js';
import { unwrap } from '../api/unwrap.js';
import { createApi } from '../api/use-api.js';
import { ErrorState } from '../components/feedback/error-state.js';
import { UnreachableBanner } from '../shell/unreachable-banner.js';
import { SessionContext, type Session } from './session-context.js';
import styles from './sign-in-page.module.css';

/** How often the page asks what its key may do: a key that was revoked is noticed on a page that asks nothing else. */
const WHOAMI_EVERY_MS = 30_000;

interface Props extends Pick<Session, 'apiKey' | 'signOut' | 'refuseKey'> {
  readonly children: ReactNode;
}

/** The part of the page that has a key: its cache of answers, and what the key may do. */
export function SignedIn(props: Props) {
  const [client] = useState(() => createQueryClient(props.refuseKey));
  return (
    <QueryClientProvider client={client}>
      <Known {...props} />
      <UnreachableBanner onBack={() => void client.invalidateQueries()} />
    </QueryClientProvider>
  );
}

function Known({ apiKey, signOut, refuseKey, children }: Props) {
  const whoami = useQuery({
    queryKey: ['whoami'],
    queryFn: ({ signal }) => unwrap(createApi(apiKey).GET('/whoami', { signal })),
    refetchInterval: WHOAMI_EVERY_MS,
  });
  const { data } = whoami;
  const session = useMemo((): Session | null => {
    if (data === undefined) return null;
    const scopes = new Set(data.scopes);
    const may: Session['may'] = (...wanted) =>
      scopes.has('admin') || wanted.some((scope) => scopes.has(scope));
    return { apiKey, name: data.name, may, signOut, refuseKey };
  }, [data, apiKey, signOut, refuseKey]);

  if (session !== null) return <SessionContext value={session}>{children}</SessionContext>;
  return (
    <main className={styles.page} aria-busy={whoami.isPending}>
      {whoami.isError && <ErrorState error={whoami.error} onRetry={() => void whoami.refetch()} />}
    </main>
  );
}
