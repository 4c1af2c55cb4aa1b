import { Link } from 'wouter';
import { shortId } from '../../lib/format.js';
import { useRoutes } from '../../shell/routes-context.js';

/** A run by its short id, leading to its page. */
export function RunLink({ id }: { readonly id: string }) {
  const hasPage = useRoutes().some(({ path }) => path === '/runs/:id');
  const text = <code>{shortId(id)}</code>;
  if (!hasPage) return <span title={id}>{text}</span>;
  return (
    <Link href={`/runs/${encodeURIComponent(id)}`} title={id}>
      {text}
    </Link>
  );
}
