import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { PROJECT } from '../service-process.js';

/** Folders of the checkout that hold no pages of ours. */
const NOT_OURS = new Set(['node_modules', 'dist', 'dist.next', 'dist.previous']);

/** A fenced block of code. */
export interface CodeBlock {
  readonly language: string;
  /** The words behind the language: what a block is for, or its name. */
  readonly kind: string;
  readonly code: string;
  /** Line of the page where its code begins, from 1. */
  readonly line: number;
}

/** A page of the documentation. */
export interface DocPage {
  /** From the checkout's root, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** All Markdown files of the checkout. */
export async function readPages(): Promise<DocPage[]> {
  const paths = await pathsBelow(PROJECT);
  return Promise.all(
    paths
      .toSorted()
      .map(async (path) => ({ path: relative(PROJECT, path), text: await readFile(path, 'utf8') })),
  );
}

/** One page by its path from the checkout's root. */
export async function readPage(path: string): Promise<DocPage> {
  return { path, text: await readFile(join(PROJECT, path), 'utf8') };
}

async function pathsBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const ours = entries.filter(({ name }) => !name.startsWith('.') && !NOT_OURS.has(name));
  const files = ours.filter((entry) => entry.isFile() && entry.name.endsWith('.md'));
  const folders = ours.filter((entry) => entry.isDirectory());
  const below = await Promise.all(folders.map(({ name }) => pathsBelow(join(folder, name))));
  return [...files.map(({ name }) => join(folder, name)), ...below.flat()];
}

/** The fenced blocks of a page, in their order. */
export function blocksOf({ text }: DocPage): CodeBlock[] {
  return [...text.matchAll(/^( *)```(\w+) ?([\w -]*)\n(.*?)^\1```$/gms)].map((match) => {
    const [, indent = '', language = '', kind = '', code = ''] = match;
    const line = text.slice(0, match.index).split('\n').length + 1;
    return { language, kind, code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''), line };
  });
}

/** A page without its fenced blocks: what a Markdown reader takes for text. */
export function proseOf({ text }: DocPage): string {
  return text.replaceAll(/^( *)```.*?^\1```$/gms, '');
}

/** Where the links of a page lead, in their order, as they are written. */
export function linksOf(page: DocPage): string[] {
  const prose = proseOf(page).replaceAll(/`[^`\n]*`/g, '');
  const inline = [...prose.matchAll(/\]\(([^()\s]+(?:\([^()\s]*\))?)\)/g)].map(([, target = '']) => target);
  return [...inline, ...definitionsOf(page).values()];
}

/** Labels of a page's link definitions (`[label]: target`), and where they lead. */
export function definitionsOf(page: DocPage): Map<string, string> {
  return new Map(
    [...proseOf(page).matchAll(/^\[([^\]]+)\]: +(\S+)$/gm)].map(([, label = '', target = '']) => [
      label,
      target,
    ]),
  );
}

/** The labels that links of a page (`[text][label]`) name. */
export function labelsOf(page: DocPage): string[] {
  const prose = proseOf(page).replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\[([^\]\n]+)\]/g)].map(([, label = '']) => label);
}

/** The anchors that the headings of a page make, as GitHub does. */
export function anchorsOf(page: DocPage): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of proseOf(page).matchAll(/^#{1,6} +(.+)$/gm)) {
    const words = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '');
    const anchor = words.trim().replaceAll(' ', '-');
    let unique = anchor;
    for (let n = 1; anchors.has(unique); n += 1) unique = `${anchor}-${n}`;
    anchors.add(unique);
  }
  return anchors;
}
