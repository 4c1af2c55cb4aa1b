import type { ReactNode } from 'react';
import { ApiError, describeError, Unreachable } from '../../api/answers.js';
import { Button } from '../controls/button.js';
import { Icon, type IconName } from '../controls/icon.js';
import styles from './empty-state.module.css';

interface Props {
  readonly icon?: IconName;
  readonly title: string;
  /** Why there is nothing, and what to do about it. */
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}

/** Says that there is nothing here, and helps on. */
export function EmptyState({ icon = 'search', title, children, action }: Props) {
  return (
    <div className={styles.state}>
      <Icon name={icon} />
      <h2>{title}</h2>
      {children !== undefined && <div className={styles.text}>{children}</div>}
      {action}
    </div>
  );
}

interface ErrorStateProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
}

/** Says what went wrong in place of what was to be shown, and offers to try again. */
export function ErrorState({ error, onRetry }: ErrorStateProps) {
  return (
    <div role="alert">
      <EmptyState
        icon="warning"
        title={titleOf(error)}
        action={onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
      >
        {describeError(error)}
      </EmptyState>
    </div>
  );
}

function titleOf(error: unknown): string {
  if (error instanceof Unreachable) return 'The service is unreachable';
  if (!(error instanceof ApiError)) return 'Something went wrong';
  if (error.status === 404) return 'Not there';
  if (error.status === 403) return 'Not allowed';
  return error.status >= 500 ? 'The service had a problem' : 'The service refused this';
}
