import { Component, useEffect, useRef, type ReactNode } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { Button } from '../components/controls/button.js';
import { EmptyState } from '../components/feedback/empty-state.js';
import { ROUTES, type PageRoute } from '../routes.js';
import { useSession } from '../session/session-context.js';

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

interface Props {
  readonly children: ReactNode;
}

interface State {
  readonly error: unknown;
}

/**
 * Keeps a page that fails from taking the rest along. A page that cannot be loaded is most often one of a dashboard that
 * was replaced by a newer one meanwhile: loading the whole again helps.
 */
class PageBoundary extends Component<Props, State> {
  override state: State = { error: undefined };

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div role="alert">
        <EmptyState
          icon="warning"
          title="This page cannot be shown"
          action={<Button onClick={() => location.reload()}>Load again</Button>}
        >
          A newer version of the dashboard may have been installed meanwhile.
        </EmptyState>
      </div>
    );
  }
}
