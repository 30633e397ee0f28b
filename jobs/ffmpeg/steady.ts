import type { Source } from './source.ts'

/**
 * Browsers and calls record pictures that change their size midway, where a phone is turned or a window is resized. ffmpeg
 * then builds its filters anew, and those that count frames and seconds begin again. Here the filters stay, and the first
 * one gives each frame the size of the others.
 */

/** Options of the input. The filters with which ffmpeg turns frames would come first, and they trust the size of each. */
export const steadyInput = ({ video }: Pick<Source, 'video'>): string[] =>
  video.frame ? ['-autorotate', '0', '-reinit_filter:v', '0'] : []

/** By degrees counterclockwise, as ffmpeg does it. */
const TURNS: Record<number, readonly string[]> = {
  90: ['transpose=cclock'],
  180: ['hflip', 'vflip'],
  270: ['transpose=clock'],
}

/** The first filters. Frames that have the size of the others are only turned. */
export function steadyFilters(source: Pick<Source, 'container' | 'video' | 'rotation'>): string[] {
  const { frame } = source.video
  return frame ? [...sized(source.container, frame), ...(TURNS[source.rotation] ?? [])] : []
}

function sized(container: string, frame: NonNullable<Source['video']['frame']>): string[] {
  const size = `${frame.width}:${frame.height}`
  // `pad` copies each frame, and cuts odd sizes. Most files that need it are those that browsers write.
  const isPadded = container.startsWith('matroska') && frame.width % 2 === 0 && frame.height % 2 === 0
  if (!isPadded) return [`scale=${size}:eval=frame`]
  return [`scale=${size}:force_original_aspect_ratio=decrease:eval=frame`, `pad=${size}:-1:-1:eval=frame`]
}
