import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { faultOf } from './join.ts'
import type { Piece } from './plan.ts'
import type { Render } from './render-context.ts'
import { clipDigest, type PieceTools, pieceFile, renderPiece, textsOf } from './render-piece.ts'
import type { Subject } from './subject.ts'

/**
 * The folder with a piece in all renditions: still on disk, stored by an earlier highlight or attempt, or encoded now and,
 * when it shows no text, stored for later ones.
 */
export async function makePiece(
  render: Render,
  tools: PieceTools,
  subjects: readonly Subject[],
  piece: Piece,
): Promise<string> {
  const [subject, next] = [subjects[piece.item], subjects[piece.item + 1]]
  if (!subject) throw new Error(`There is no item ${piece.item}`)
  const { cache, scratch, signal } = render
  const isClip = piece.kind === 'clip'
  const own = clipDigest(subject, piece, tools)
  const digest =
    isClip || !next ? own : `${own}-${clipDigest(next, { item: piece.item + 1, from: 0, frames: piece.frames }, tools)}`
  const folder = join(scratch, `piece-${digest}`)
  if (await exists(folder)) return folder
  signal.throwIfAborted()
  const making = `${folder}.making`
  await rm(making, { recursive: true, force: true })
  // Stored pieces live as long as their source. A crossfade would outlive one of its two, and a text the highlight.
  const mayBeStored = isClip && textsOf(subject, piece, tools).length === 0
  const isStored =
    mayBeStored &&
    (await cache.find(subject.item.cachePrefix, digest, making, () => isWhole(making, piece.frames, tools)))
  const damaged = isStored ? 0 : await renderPiece(tools, subjects, piece, making)
  if (isStored) render.reused += 1
  // An item is judged by the damage in all its pieces together: a stored one would not say what was found in it.
  else if (mayBeStored && damaged === 0) {
    await cache.keep(
      subject.item,
      digest,
      making,
      tools.renditions.map(({ name }) => `${name}.ts`),
    )
  }
  await rename(making, folder)
  failpoint('highlight.piece')
  return folder
}

/** A stored piece is looked at as a new one is: one that does not fit would fail every attempt. */
async function isWhole(folder: string, frames: number, { renditions }: PieceTools): Promise<boolean> {
  for (const rendition of renditions) if (await faultOf(pieceFile(folder, rendition), frames)) return false
  return true
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )
