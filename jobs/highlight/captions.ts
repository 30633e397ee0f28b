import { writeFile } from 'node:fs/promises'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import type { Size } from './fit.ts'
import type { Subject } from './subject.ts'
import { drawCaption, drawTitle } from './text/draw.ts'

/** Text over an item, from its first frame on. */
export interface Caption {
  kind: 'title' | 'caption'
  text: string
  /** The frame of the item at which it has vanished. */
  until: number
}

const TITLE_FRAMES = 4 * HIGHLIGHT_FPS
const CAPTION_FRAMES = 8 * HIGHLIGHT_FPS

/** The texts that are seen from frame `from` of an item on. The title is over the first item of the highlight. Pure. */
export function captionsOf(subject: Subject, from: number, title: string | null): Caption[] {
  const captions: Caption[] = [
    { kind: 'caption', text: subject.item.caption, until: Math.min(CAPTION_FRAMES, subject.frames) },
    { kind: 'title', text: title ?? '', until: Math.min(TITLE_FRAMES, subject.frames) },
  ]
  return captions.filter(({ text, until }) => text !== '' && from < until)
}

/** Draws the text as a PNG in the size of the canvas; false when nothing of it can be drawn. */
export async function drawText({ kind, text }: Caption, canvas: Size, path: string): Promise<boolean> {
  const drawn = await (kind === 'title' ? drawTitle(text, canvas) : drawCaption(text, canvas))
  if (!drawn) return false
  await writeFile(path, drawn)
  return true
}
