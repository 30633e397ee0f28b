import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Film } from './film-context.ts'
import type { Piece } from './plan.ts'
import { clipDigest, type PieceTools, renderPiece, textsOf } from './render-piece.ts'
import type { Subject } from './subject.ts'

/**
 * The folder with a piece in all renditions: still on disk, stored by an earlier film or attempt, or encoded now and,
 * when it shows no text, stored for later ones.
 */
export async function makePiece(
  film: Film,
  tools: PieceTools,
  subjects: readonly Subject[],
  piece: Piece,
): Promise<string> {
  const [subject, next] = [subjects[piece.item], subjects[piece.item + 1]]
  if (!subject) throw new Error(`There is no item ${piece.item}`)
  const { cache, scratch, signal } = film
  const isClip = piece.kind === 'clip'
  const own = clipDigest(subject, piece, tools)
  const digest =
    isClip || !next ? own : `${own}-${clipDigest(next, { item: piece.item + 1, from: 0, frames: piece.frames }, tools)}`
  const folder = join(scratch, `piece-${digest}`)
  if (await exists(folder)) return folder
  signal.throwIfAborted()
  const making = `${folder}.making`
  await rm(making, { recursive: true, force: true })
  // Stored pieces live as long as their source. A crossfade would outlive one of its two, and a text the film.
  const mayBeStored = isClip && textsOf(subject, piece, tools).length === 0
  const isStored = mayBeStored && (await cache.find(subject.item.cachePrefix, digest, making))
  if (isStored) film.reused += 1
  else await renderPiece(tools, subjects, piece, making)
  if (mayBeStored && !isStored) {
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

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )
