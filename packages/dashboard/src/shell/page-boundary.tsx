import { Component, type ReactNode } from 'react';
import { Button } from '../components/controls/button.js';
import { EmptyState } from '../components/feedback/empty-state.js';

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
export class PageBoundary extends Component<Props, State> {
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
