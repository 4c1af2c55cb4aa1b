import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState, type ReactNode } from 'react';
import { unwrap } from '../api/answers.js';
import { createApi, createQueryClient } from '../api/use-api.js';
import { ErrorState } from '../components/feedback/empty-state.js';
import { UnreachableBanner } from '../shell/unreachable-banner.js';
import { SessionContext, type Session } from './session-context.js';
import { SignInPage } from './sign-in-page.js';
import styles from './sign-in-page.module.css';

const KEY_REFUSED =
  'The service no longer takes your key: it has expired or was revoked. Sign in with another one; you will come back to this page.';

/**
 * Shows its children when a user is signed in, else the sign-in page. The address stays as it is meanwhile,
 * so signing in leads to where one wanted to go.
 */
export function SessionGate({ children }: { readonly children: ReactNode }) {
  const [apiKey, setApiKey] = useState(readStoredKey);
  const [notice, setNotice] = useState<string>();

  const signIn = useCallback((key: string) => {
    storeKey(key);
    setNotice(undefined);
    setApiKey(key);
  }, []);
  const leave = useCallback((reason?: string) => {
    storeKey(null);
    setNotice(reason);
    setApiKey(null);
  }, []);
  const signOut = useCallback(() => leave(), [leave]);
  const refuseKey = useCallback(() => leave(KEY_REFUSED), [leave]);

  if (apiKey === null) return <SignInPage notice={notice} onSignIn={signIn} />;
  return (
    <SignedIn key={apiKey} apiKey={apiKey} signOut={signOut} refuseKey={refuseKey}>
      {children}
    </SignedIn>
  );
}

const NAME = 'longshore.key';

/** The key that this tab was signed in with, if any. It lives as long as the tab and is seen by no other. */
function readStoredKey(): string | null {
  try {
    return sessionStorage.getItem(NAME);
  } catch {
    return null;
  }
}

/** Keeps the key for reloads of this tab; null forgets it. */
function storeKey(apiKey: string | null): void {
  try {
    if (apiKey === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, apiKey);
  } catch {
    // Storage is switched off: the key lasts until the page is left.
  }
}

/** How often the page asks what its key may do: a key that was revoked is noticed on a page that asks nothing else. */
const WHOAMI_EVERY_MS = 30_000;

interface Props extends Pick<Session, 'apiKey' | 'signOut' | 'refuseKey'> {
  readonly children: ReactNode;
}

/** The part of the page that has a key: its cache of answers, and what the key may do. */
function SignedIn(props: Props) {
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
