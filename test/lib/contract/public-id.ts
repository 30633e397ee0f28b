import fc from 'fast-check'
import t from 'tap'
import * as z from 'zod'
import { formatId, type Id, type IdKind, newUuid, PREFIXES, parseId } from '../../../lib/contract/ids.ts'
import { publicId, withUuids } from '../../../lib/contract/public-id.ts'

const anyKind = fc.constantFrom(...(Object.keys(PREFIXES) as IdKind[]))
const anyUuid = fc.uuid()

t.test('a UUID leaves as the id of its kind, and a caller who sends that id names the same UUID', async (t) => {
  fc.assert(
    fc.property(anyKind, anyUuid, (kind, uuid) => {
      const shown = publicId(kind).parse(uuid)
      return shown === formatId(kind, uuid) && parseId(kind, shown) === uuid
    }),
  )
  t.strictSame(
    z.object({ ids: z.array(publicId('media')), none: publicId('user').nullable() }).parse({ ids: [], none: null }),
    {
      ids: [],
      none: null,
    },
  )
})

t.test('what has been parsed stays as it is', async () => {
  fc.assert(
    fc.property(anyKind, anyUuid, (kind, uuid) => {
      const shown = publicId(kind).parse(uuid)
      return publicId(kind).parse(shown) === shown
    }),
  )
})

t.test('refuses ids of another kind, and what is no id', async (t) => {
  const uuid = newUuid()
  const wrong = [
    formatId('album', uuid),
    uuid.replaceAll('-', '+'),
    uuid.slice(1),
    ` ${uuid}`,
    `${uuid}\n`,
    'med_x',
    '',
    null,
    7,
  ]
  for (const value of wrong) t.notOk(publicId('media').safeParse(value).success, String(value))
})

t.test('the compiler keeps the forms and the kinds apart', async (t) => {
  const media: Id<'media'> = newUuid()
  const shown = formatId('media', media)
  const Answer = z.object({ media_id: publicId('media') })
  const takes = (answer: z.input<typeof Answer>) => Answer.parse(answer).media_id
  t.equal(takes({ media_id: media }), shown)
  // @ts-expect-error This test fails to compile when an answer takes a public id, which would be formatted twice.
  takes({ media_id: shown })
  const album: Id<'album'> = newUuid()
  // @ts-expect-error It also fails when an answer takes the id of an album as that of a media item.
  takes({ media_id: album })
  // @ts-expect-error And when a public id passes for a UUID, with which a query would find no row.
  const uuid: Id<'media'> = shown
  t.not(uuid, media)
})

t.test('is text in a document', async (t) => {
  const { $schema: _, ...schema } = z.toJSONSchema(publicId('media'), { io: 'output' })
  t.strictSame(schema, { type: 'string' })
})

t.test('what has left as ids comes back as the same UUIDs', async (t) => {
  const schema = z.object({
    media_id: publicId('media'),
    ids: z.array(publicId('user')),
    none: publicId('event').nullable(),
  })
  fc.assert(
    fc.property(anyUuid, fc.array(anyUuid), (media, ids) => {
      const given = { media_id: media, ids, none: null }
      return JSON.stringify(withUuids(schema, schema.parse(given))) === JSON.stringify(given)
    }),
  )
  const title = formatId('media', newUuid())
  t.strictSame(withUuids(z.object({ title: z.string() }), { title }), { title }, 'text of that form stays')
  t.throws(() => withUuids(publicId('media'), 'nothing'), TypeError)
})
