import fc from 'fast-check'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import {
  highlightPrefix,
  manifestKey,
  masterKey,
  mediaPrefix,
  originalKey,
  outputPrefix,
  piecesPrefix,
  renderPrefix,
  stagedChunkKey,
  stagingPrefix,
  trackKey,
} from '../../../lib/contract/object-keys.ts'
import { isObjectKey } from '../../../lib/runtime/object-store/key.ts'

const uuid = fc.uuid()

t.test('every key is one that every store accepts', async (t) => {
  fc.assert(
    fc.property(uuid, uuid, fc.nat(10_000), (org, id, n) =>
      [
        originalKey(org, id),
        manifestKey(outputPrefix(org, id, n)),
        masterKey(outputPrefix(org, id, n)),
        stagedChunkKey(org, id, n),
        manifestKey(renderPrefix(org, id, n)),
        `${piecesPrefix(org, id)}piece.ts`,
        trackKey(id),
      ].every(isObjectKey),
    ),
  )
  t.pass()
})

t.test('all that belongs to a media lies below its prefix, and nothing of another', async (t) => {
  fc.assert(
    fc.property(uuid, uuid, uuid, fc.nat(99), (org, one, two, n) => {
      const prefix = mediaPrefix(org, one)
      const mine = [originalKey(org, one), outputPrefix(org, one, n), piecesPrefix(org, one)]
      const others = [
        originalKey(org, two),
        outputPrefix(org, two, n),
        stagedChunkKey(org, one, n),
        piecesPrefix(org, two),
        renderPrefix(org, one, n),
        trackKey(one),
      ]
      return mine.every((k) => k.startsWith(prefix)) && (one === two || others.every((k) => !k.startsWith(prefix)))
    }),
  )
  t.pass()
})

t.test('a generation does not contain another', async (t) => {
  const [org, media] = [newUuid(), newUuid()]
  t.notOk(outputPrefix(org, media, 10).startsWith(outputPrefix(org, media, 1)))
  t.ok(outputPrefix(org, media, 1).endsWith('/'))
  t.notOk(renderPrefix(org, media, 10).startsWith(renderPrefix(org, media, 1)))
  t.ok(renderPrefix(org, media, 1).startsWith(highlightPrefix(org, media)))
  t.ok(stagingPrefix(org, media).endsWith('/'))
  t.ok(mediaPrefix(org, media).endsWith('/'))
})
