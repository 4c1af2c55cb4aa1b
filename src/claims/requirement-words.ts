import type { Requirements } from '../runs/requirements.js';

const VOLUME = /^volume:([^:]+)(:rw)?$/;

/** Says which tags, also of GPUs, volumes and capabilities none of the workers has or, without such, that none has all of them. */
export function unmetWords(offers: readonly Requirements[], required: Requirements): string {
  const tags = required.tags.filter((tag) => !offers.some((offer) => offer.tags.includes(tag)));
  const gpuTags = required.gpuTags.filter((tag) => !offers.some((offer) => offer.gpuTags.includes(tag)));
  const isOffered = (name: string): boolean => offers.some(({ capabilities }) => capabilities.includes(name));
  const missing = required.capabilities.filter((name) => !isOffered(name));
  const capabilities = missing.filter((name) => !VOLUME.test(name));
  const absent = [
    ...(tags.length > 0 ? [`no active worker has ${named('tag', 'tags', tags)}`] : []),
    ...missing.flatMap((name) => {
      const [, volume] = VOLUME.exec(name) ?? [];
      if (volume === undefined) return [];
      const isReadOnly = isOffered(`volume:${volume}`);
      return `no active worker ${isReadOnly ? 'lets runs write into' : 'offers'} the volume '${volume}'`;
    }),
    ...(capabilities.length > 0
      ? [`no active worker announces ${named('capability', 'capabilities', capabilities)}`]
      : []),
    ...(gpuTags.length > 0 ? [`no GPU of an active worker has ${named('tag', 'tags', gpuTags)}`] : []),
  ];
  return [...new Set(absent)].join(', and ') || `no active worker has all of ${requirementWords(required)}`;
}

/** The tags, volumes and capabilities by name. */
export function requirementWords({ tags, capabilities, gpuTags }: Requirements): string {
  const volumes = capabilities.flatMap((name) => VOLUME.exec(name)?.[1] ?? []);
  const others = capabilities.filter((name) => !VOLUME.test(name));
  return [
    ...(tags.length > 0 ? [named('tag', 'tags', tags)] : []),
    ...(volumes.length > 0 ? [named('volume', 'volumes', [...new Set(volumes)])] : []),
    ...(others.length > 0 ? [named('capability', 'capabilities', others)] : []),
    ...(gpuTags.length > 0 ? [named('GPU tag', 'GPU tags', gpuTags)] : []),
  ].join(' and ');
}

function named(one: string, several: string, names: readonly string[]): string {
  return `the ${names.length === 1 ? one : several} ${names.join(', ')}`;
}
