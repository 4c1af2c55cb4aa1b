/** The decorators' metadata. class-transformer ships the declarations, but not beside the file. */
declare module 'class-transformer/cjs/storage.js' {
  export { defaultMetadataStorage } from 'class-transformer/types/storage.js';
}
