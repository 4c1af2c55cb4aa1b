import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { ApiError } from '../api/answers.js';
import { CopyButton } from '../components/controls/copy-button.js';
import type { IconName } from '../components/controls/icon.js';
import { EmptyState, ErrorState } from '../components/feedback/empty-state.js';
import styles from './item-page.module.css';
import { PageHeader } from './page-header.js';

interface TitleProps {
  /** Path and title of the page that lists it. */
  readonly list: readonly [path: string, title: string];
  readonly name: string;
  /** What the name is, such as `id`. */
  readonly what: string;
}

/** The heading of the page of one item, below that of the list. */
export function ItemTitle({ list: [path, title], name, what }: TitleProps) {
  return (
    <span className={styles.title}>
      <Link href={path} className={styles.parent}>
        {title}
      </Link>
      <span aria-hidden="true" className="muted">
        /
      </span>
      {name}
      <CopyButton what={what} text={name} />
    </span>
  );
}

/** What people say of the item; null: nothing. */
export function ItemDescription({ text }: { readonly text: string | null }) {
  return text === null ? null : <p className={styles.description}>{text}</p>;
}

interface Props<T> extends Pick<TitleProps, 'list' | 'name'> {
  /** What it is, such as `schedule`. */
  readonly kind: string;
  readonly icon: IconName;
  readonly result: Pick<UseQueryResult<T>, 'data' | 'error' | 'refetch'>;
  readonly children: (item: T) => ReactNode;
}

/** A page of one item of a list, which may not exist. */
export function ItemPage<T>({ list, name, kind, icon, result, children }: Props<T>) {
  const { data, error, refetch } = result;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <EmptyState
        icon={icon}
        title={`There is no ${kind} ${name}`}
        action={<Link href={list[0]}>All {list[1].toLowerCase()}</Link>}
      />
    );
  }
  if (data !== undefined) return children(data);
  return error === null ? (
    <PageHeader title={name} />
  ) : (
    <ErrorState error={error} onRetry={() => void refetch()} />
  );
}
