import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive, type Schemas } from '../../api/use-api.js';
import { STATE_TONES, type Tone } from '../../components/values/badge.js';
import { classNames } from '../../lib/class-names.js';
import { shortId } from '../../lib/format.js';
import { layoutGraph, NODE } from './graph-layout.js';
import styles from './group-graph.module.css';
import { GROUP_TONES, type Group } from './group-view.js';

type Graph = Schemas['GroupGraph'];
type Node = Graph['nodes'][number];
type Edge = Graph['edges'][number];

const MOST_NODES = 200;
const EVERY_MS = 5000;

/** The graph of a group with dependencies, unless it is too large to be read. */
export function GroupGraph({ group: { id, size, array, state } }: { readonly group: Group }) {
  const api = useApi();
  const isSmall = size <= MOST_NODES;
  const { data: graph } = useLive({
    queryKey: ['groups', 'graph', id, state],
    queryFn: ({ signal }) => unwrap(api.GET('/groups/{id}/graph', { params: { path: { id } }, signal })),
    everyMs: state === 'open' && EVERY_MS,
    enabled: isSmall,
  });
  const isDrawn = isSmall && graph !== undefined && graph.nodes.length <= MOST_NODES;
  const isAbsent = isSmall ? graph === undefined || graph.edges.length === 0 : array !== null;
  if (isAbsent) return null;
  return (
    <section>
      <h2>Graph</h2>
      {isDrawn ? (
        <Drawing graph={graph} />
      ) : (
        <p className="muted">A graph of more than {MOST_NODES} nodes is not drawn.</p>
      )}
    </section>
  );
}

/** Nodes from left to right in the order in which they may run; of the node under the pointer or with the focus, the edges stand out. */
function Drawing({ graph }: { readonly graph: Graph }) {
  const [active, setActive] = useState<string>();
  const layout = useMemo(() => layoutGraph(graph.nodes, graph.edges), [graph]);
  const names = useMemo(() => new Map(graph.nodes.map((node) => [node.id, nameOf(node)])), [graph]);
  const { width, height, layers, nodes, edges } = layout;
  const toLine = ({ edge, path }: (typeof edges)[number]) => (
    <path
      key={`${edge.from} ${edge.to} ${edge.when}`}
      d={path}
      className={classNames(styles.edge, styles[edge.state])}
    >
      <title>{`${names.get(edge.from)} → ${names.get(edge.to)}: ${edge.when}, ${edge.state}`}</title>
    </path>
  );
  return (
    <div className={styles.frame}>
      <svg role="group" aria-label="Graph of the group" width={width} height={height}>
        {layers.map((layer) => (
          <rect key={layer.x} {...layer} y={0} height={height} rx={6} className={styles.layer} />
        ))}
        <g className={classNames(active !== undefined && styles.dimmed)}>
          {edges.filter(({ edge }) => !touches(edge, active)).map(toLine)}
        </g>
        <g className={styles.active}>{edges.filter(({ edge }) => touches(edge, active)).map(toLine)}</g>
        {nodes.map(({ node, x, y }) => (
          <Link
            key={node.id}
            href={`/${node.kind}s/${encodeURIComponent(node.id)}`}
            className={classNames(styles.node, styles[toneOf(node)], !node.is_member && styles.other)}
            onPointerEnter={() => setActive(node.id)}
            onPointerLeave={() => setActive(undefined)}
            onFocus={() => setActive(node.id)}
            onBlur={() => setActive(undefined)}
          >
            <title>{describe(node)}</title>
            {/* What is inside is cut at its edges. */}
            <svg x={x} y={y} width={NODE.width} height={NODE.height}>
              <rect x={1} y={1} width={NODE.width - 2} height={NODE.height - 2} rx={5} />
              <text x={10} y={16} className={styles.name}>
                {nameOf(node)}
              </text>
              <text x={10} y={31}>
                {stateOf(node)}
                {!node.is_member && `, another ${node.kind}`}
              </text>
            </svg>
          </Link>
        ))}
      </svg>
    </div>
  );
}

function touches({ from, to }: Edge, id: string | undefined): boolean {
  return from === id || to === id;
}

function nameOf({ id, ref, index, name }: Node): string {
  return ref ?? (index === null ? (name ?? shortId(id)) : `index ${index}`);
}

function describe(node: Node): string {
  const { id, kind, is_member: isMember } = node;
  return `${nameOf(node)}: ${stateOf(node)}${isMember ? '' : `, a ${kind} outside of the group`} (${id})`;
}

function stateOf({ state }: Node): string {
  return state?.toLowerCase() ?? 'removed';
}

const TONES: Readonly<Partial<Record<string, Tone>>> = { ...STATE_TONES, ...GROUP_TONES };

function toneOf({ state }: Node): Tone {
  return TONES[state ?? ''] ?? 'neutral';
}
