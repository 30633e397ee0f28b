import * as z from 'zod'
import { type CelRule, immutable, immutableIfSet, type Kind, resourceOf } from './kind.ts'
import {
  encodeFields,
  FIXED_RUN_FIELDS,
  isUnique,
  itemId,
  keyPrefix,
  objectKey,
  type ParsedRun,
  parseRun,
  type Run,
  runColumns,
  runFields,
  runStatus,
} from './run.ts'

/**
 * Text of a user that appears in the highlight: up to 200 code points, no control characters. `max` counts UTF-16 units here
 * and code points in the API server, so the pattern, which counts code points in both, sets the limit.
 */
const highlightText = () =>
  z
    .string()
    .max(400)
    .regex(/^\P{Cc}{0,200}$/u)

/** One photo or clip of the highlight. `seconds` is how long a photo is shown, and at most how long a clip is. */
export const HighlightItem = z.object({
  id: itemId().describe('Unique in this resource, e.g. the id of the media item; a failure names it'),
  type: z
    .enum(['video', 'image', 'motion'])
    .describe('Type of the original. motion, the moving part of a Live Photo, is used like video'),
  sourceKey: objectKey().describe('Key of the original in the object store'),
  cachePrefix: keyPrefix().describe(
    'Key prefix of normalized pieces of this source, kept for later renders; ends in a slash. Deleted with the source',
  ),
  seconds: z
    .number()
    .min(0.5)
    .max(60)
    .describe('Seconds that an image is shown; a video is cut after these seconds if it is longer'),
  caption: highlightText().default('').describe('Text over this item; empty: none'),
})
export type HighlightItem = z.infer<typeof HighlightItem>

export const HighlightMusic = z.object({
  id: itemId().describe('Id of the music track'),
  sourceKey: objectKey().describe('Key of the audio file in the object store'),
})

const specRules: CelRule[] = [
  ...immutable([
    'id',
    'title',
    'showTitle',
    'items',
    'outputPrefix',
    'transition',
    'orientation',
    'fill',
    'kenBurns',
    'skipBroken',
    ...FIXED_RUN_FIELDS,
  ]),
  ...immutableIfSet(['music']),
  {
    rule: 'self.items.all(i, !i.sourceKey.startsWith(self.outputPrefix))',
    message: 'no sourceKey may lie below outputPrefix',
    fieldPath: '.items',
  },
]

export const HighlightRenderSpec = z
  .object({
    id: itemId().describe('Id of the highlight; status.outputs refers to it'),
    title: highlightText().default('').describe('Title of the highlight'),
    showTitle: z.boolean().default(true).describe('Whether the title appears over the first seconds of the highlight'),
    items: z
      .array(HighlightItem)
      .min(1)
      .max(30)
      .refine((items) => isUnique(items.map((i) => i.id)), 'ids must be unique')
      .describe('Photos and clips in playback order')
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['id'] }),
    outputPrefix: keyPrefix().describe(
      'Key prefix of the finished highlight; ends in a slash. manifest.json is written last and is the commit',
    ),
    transition: z
      .enum(['cut', 'crossfade', 'fade'])
      .default('cut')
      .describe('Between two items. crossfade: they overlap; fade: through black, without overlap'),
    orientation: z
      .enum(['auto', 'landscape', 'portrait', 'square'])
      .default('auto')
      .describe('Shape of the highlight: 16:9, 9:16 or 1:1. auto: landscape or portrait, as most of the items are'),
    fill: z
      .enum(['blur', 'black'])
      .default('blur')
      .describe('What surrounds an item of another shape: itself, enlarged and blurred, or black'),
    kenBurns: z.boolean().default(true).describe('Whether photos move slowly'),
    skipBroken: z
      .boolean()
      .default(false)
      .describe(
        'true: items that cannot be decoded are left out, and the manifest names them. false: the render fails',
      ),
    music: HighlightMusic.optional().describe('Music under the highlight'),
    ...encodeFields,
    ...runFields('HighlightRender'),
    accelerator: z
      .enum(['auto', 'gpu', 'cpu'])
      .default('cpu')
      .describe(
        'cpu: highlights are encoded on the CPU. auto and gpu only reserve a GPU, which no highlight uses so far',
      ),
  })
  .refine(({ items, outputPrefix }) => items.every((i) => !i.sourceKey.startsWith(outputPrefix)), {
    path: ['items'],
    message: 'no sourceKey may lie below outputPrefix',
  })
  .meta({
    description:
      'The highlight to render. Immutable except suspend and priority: create another HighlightRender instead.',
    'x-kubernetes-validations': specRules,
  })
export type HighlightRenderSpec = z.infer<typeof HighlightRenderSpec>

const HighlightRenderStatus = runStatus('HighlightRender')

export const highlightRenderKind: Kind<typeof HighlightRenderSpec, typeof HighlightRenderStatus, 'HighlightRender'> = {
  kind: 'HighlightRender',
  plural: 'highlightrenders',
  shortNames: ['hr'],
  categories: ['keepsake'],
  description:
    'Renders photos and clips into one highlight, with transitions, a title and music, as an HLS stream. Runs Jobs and reports progress in the status.',
  spec: HighlightRenderSpec,
  status: HighlightRenderStatus.describe('State of the render, written by the operator'),
  columns: runColumns({ name: 'Title', type: 'string', jsonPath: '.spec.title' }),
}

export const HIGHLIGHT_RENDERS = resourceOf(highlightRenderKind)

export type HighlightRender = Run<'HighlightRender', HighlightRenderSpec>

/** See `parseRun`. */
export const parseHighlightRender = (object: unknown): ParsedRun<HighlightRender> =>
  parseRun(highlightRenderKind, object)
