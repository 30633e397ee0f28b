import type { HighlightItem } from '../../crds/highlight-render.ts'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { type ItemFailed, isBrokenItem } from './item-failed.ts'
import { makePiece } from './make-piece.ts'
import { planHighlight } from './plan.ts'
import type { Render } from './render-context.ts'
import type { PieceTools } from './render-piece.ts'
import { examine, type Subject } from './subject.ts'

/** Downloads and examines every item, so that a bad one is found before anything is encoded. */
export async function examineAll(render: Render): Promise<Subject[]> {
  const { items } = render.spec
  const subjects: Subject[] = []
  for (const [k, item] of items.entries()) {
    render.progress.at('Downloading', k / items.length)
    const subject = await examineOrSkip(render, item)
    if (subject) subjects.push(subject)
  }
  render.progress.at('Probing', 1)
  return subjects
}

async function examineOrSkip(render: Render, item: HighlightItem): Promise<Subject | undefined> {
  try {
    return await examine(render, item)
  } catch (error) {
    skipOrThrow(render, error)
    return undefined
  }
}

/**
 * Notes why an item is left out, where the spec permits that. Throws the error when it does not, when it is not an item's
 * fault, and when no item would be left.
 */
function skipOrThrow(render: Render, error: unknown): asserts error is ItemFailed {
  if (!render.spec.skipBroken || !isBrokenItem(error)) throw error
  render.log.warn({ item: error.item, err: error }, 'the item is left out')
  render.skipped.push({ id: error.item, ...error.detail })
  if (render.skipped.length === render.spec.items.length) throw error
}

/**
 * The items that can be shown whole. With `skipBroken` all pieces are encoded before any is published, because those
 * around a broken item change; they stay on disk.
 */
export async function withoutBroken(render: Render, tools: PieceTools, examined: Subject[]): Promise<Subject[]> {
  if (!render.spec.skipBroken) return examined
  const plan = planHighlight(examined, tools.look.transition)
  render.progress.at('Encoding', 0, plan.total / HIGHLIGHT_FPS)
  try {
    for (const piece of plan.pieces) {
      await makePiece(render, tools, examined, piece)
      render.progress.at('Encoding', (piece.start + piece.frames) / plan.total, plan.total / HIGHLIGHT_FPS)
    }
    return examined
  } catch (error) {
    skipOrThrow(render, error)
    const rest = examined.filter(({ item }) => item.id !== error.item)
    return withoutBroken(render, tools, rest)
  }
}
