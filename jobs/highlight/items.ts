import type { HighlightItem } from '../../crds/highlight-render.ts'
import { FILM_FPS } from '../../lib/contract/film-length.ts'
import type { Film } from './film-context.ts'
import { type ItemFailed, isBrokenItem } from './item-failed.ts'
import { makePiece } from './make-piece.ts'
import { planFilm } from './plan.ts'
import type { PieceTools } from './render-piece.ts'
import { examine, type Subject } from './subject.ts'

/** Downloads and examines every item, so that a bad one is found before anything is encoded. */
export async function examineAll(film: Film): Promise<Subject[]> {
  const { items } = film.spec
  const subjects: Subject[] = []
  for (const [k, item] of items.entries()) {
    film.progress.at('Downloading', k / items.length)
    const subject = await examineOrSkip(film, item)
    if (subject) subjects.push(subject)
  }
  film.progress.at('Probing', 1)
  return subjects
}

async function examineOrSkip(film: Film, item: HighlightItem): Promise<Subject | undefined> {
  try {
    return await examine(film, item)
  } catch (error) {
    skipOrThrow(film, error)
    return undefined
  }
}

/**
 * Notes why an item is left out, where the spec permits that. Throws the error when it does not, when it is not an item's
 * fault, and when no item would be left.
 */
function skipOrThrow(film: Film, error: unknown): asserts error is ItemFailed {
  if (!film.spec.skipBroken || !isBrokenItem(error)) throw error
  film.log.warn({ item: error.item, err: error }, 'the item is left out')
  film.skipped.push({ id: error.item, ...error.detail })
  if (film.skipped.length === film.spec.items.length) throw error
}

/**
 * The items that can be shown whole. With `skipBroken` all pieces are encoded before any is published, because those
 * around a broken item change; they stay on disk.
 */
export async function withoutBroken(film: Film, tools: PieceTools, examined: Subject[]): Promise<Subject[]> {
  if (!film.spec.skipBroken) return examined
  const plan = planFilm(examined, tools.look.transition)
  film.progress.at('Encoding', 0, plan.total / FILM_FPS)
  try {
    for (const piece of plan.pieces) {
      await makePiece(film, tools, examined, piece)
      film.progress.at('Encoding', (piece.start + piece.frames) / plan.total, plan.total / FILM_FPS)
    }
    return examined
  } catch (error) {
    skipOrThrow(film, error)
    const rest = examined.filter(({ item }) => item.id !== error.item)
    return withoutBroken(film, tools, rest)
  }
}
