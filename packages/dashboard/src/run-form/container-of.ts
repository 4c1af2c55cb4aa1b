import type { Schemas } from '@longshore/client';

type Container = Pick<Schemas['OpRun'], 'env' | 'command' | 'args' | 'secrets' | 'image_pull_secret'>;

/** What a run or a definition says of its container; undefined when it says nothing. */
export function containerOf({
  env,
  command,
  args,
  secrets,
  image_pull_secret,
}: Container): Partial<Container> | undefined {
  const said = {
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(command === null ? {} : { command }),
    ...(args === null ? {} : { args }),
    ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
    ...(image_pull_secret === null ? {} : { image_pull_secret }),
  };
  return Object.keys(said).length === 0 ? undefined : said;
}
