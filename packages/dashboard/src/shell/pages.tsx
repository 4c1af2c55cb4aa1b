import { useEffect, useRef } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { EmptyState } from '../components/feedback/empty-state.js';
import { ROUTES, type PageRoute } from '../routes.js';
import { useSession } from '../session/session-context.js';
import { PageBoundary } from './page-boundary.js';

/** Shows the page that the address names. */
export function Pages() {
  const [location] = useLocation();
  return (
    <PageBoundary key={location}>
      <Switch>
        {ROUTES.map((route) => (
          <Route key={route.path} path={route.path}>
            <OnePage route={route} />
          </Route>
        ))}
        <Route>
          <EmptyState title="There is no such page">
            The address may be wrong, or from another version of the dashboard.
          </EmptyState>
        </Route>
      </Switch>
    </PageBoundary>
  );
}

function OnePage({ route }: { readonly route: PageRoute }) {
  const { may } = useSession();
  const isAllowed = may(...route.scopes);
  useTitle(route.title);
  if (isAllowed) return <route.page />;
  return (
    <EmptyState icon="keys" title="Your key has no access to this page">
      It needs a key with the scope{' '}
      {route.scopes.length === 0 ? 'admin' : [...route.scopes, 'admin'].join(' or ')}.
    </EmptyState>
  );
}

/** Names the tab after the page, and lets a change of page be read out. */
function useTitle(title: string): void {
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · Longshore`;
    if (!isFirst.current) document.getElementById('main')?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [title]);
}
