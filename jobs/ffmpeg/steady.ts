import type { Source } from './source.ts'

/**
 * Browsers and calls record pictures that change their size midway, where a phone is turned or a window is resized. ffmpeg
 * then builds its filters anew, and those that count frames and seconds begin again. Here the filters stay, and the first
 * one gives each frame the size of the others.
 */

/** Options of the input. A frame whose stream says how it is turned would meet filters that trust its size first. */
export const steadyInput = ({ video }: Pick<Source, 'video'>): string[] =>
  video.frame ? ['-autorotate', '0', '-reinit_filter:v', '0'] : []

/** The first filters. Frames that have the size of the others pass through them as they are. */
export function steadyFilters({ container, video: { frame } }: Pick<Source, 'container' | 'video'>): string[] {
  if (!frame) return []
  const size = `${frame.width}:${frame.height}`
  // `pad` copies each frame, and cuts odd sizes. Most files that need it are those that browsers write.
  const isPadded = container.startsWith('matroska') && frame.width % 2 === 0 && frame.height % 2 === 0
  if (!isPadded) return [`scale=${size}:eval=frame`]
  return [`scale=${size}:force_original_aspect_ratio=decrease:eval=frame`, `pad=${size}:-1:-1:eval=frame`]
}
